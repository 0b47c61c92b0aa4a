package restorejob

import (
	"context"
	"iter"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/proof"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// Examine implements Artifacts.
func (g *rig) Examine(ctx context.Context, ns string, source record.Source, login proof.Login, live iter.Seq2[[]byte, error]) (record.Proof, artifact.Facts, error) {
	p, err := g.Prove(ctx, ns, source, login)
	facts := g.facts
	if live != nil {
		facts.Difference = &artifact.Difference{}
		for key := range live {
			prefix := artifact.Prefix(key)
			if facts.Prefixes[prefix].Keys == 0 {
				d := &facts.Difference.Vanish
				if d.Prefixes == nil {
					d.Prefixes = map[string]int64{}
				}
				d.Keys++
				d.Prefixes[prefix]++
			}
		}
	}
	return p, facts, err
}

// DialKeys implements etcd.KeyDialer.
func (g *rig) DialKeys(target etcd.Target) (etcd.Keys, error) {
	reader, err := g.Dial(target)
	if err != nil {
		return nil, err
	}
	return reader.(*fakeMember), nil
}

// DialAlarms implements etcd.AlarmDialer.
func (g *rig) DialAlarms(target etcd.Target) (etcd.Alarms, error) {
	reader, err := g.Dial(target)
	if err != nil {
		return nil, err
	}
	return reader.(*fakeMember), nil
}

// DialLogin implements etcd.LoginDialer.
func (g *rig) DialLogin(target etcd.Target) (etcd.Login, error) {
	reader, err := g.Dial(target)
	if err != nil {
		return nil, err
	}
	member := reader.(*fakeMember)
	member.target = target
	return member, nil
}

func (m *fakeMember) ReadOne(context.Context) error {
	if m.g.refuseRead == nil {
		return nil
	}
	return m.g.refuseRead(m.target)
}

func (m *fakeMember) List(context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, k := range m.g.liveKeys {
			if !yield([]byte(k), nil) {
				return
			}
		}
		if m.g.listError != nil {
			yield(nil, m.g.listError)
		}
	}
}

func (m *fakeMember) Revision() int64 { return 1000 }

func (m *fakeMember) DisarmNoSpace(context.Context) error {
	m.g.disarmed.Add(1)
	return nil
}
