package restorejob

import (
	"context"
	"crypto/tls"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

const (
	clientPort = 2379
	// askTimeout bounds one round of questions: a member that takes longer is asked again in the next pass.
	askTimeout = 3 * time.Second
)

// TLSConfig gives the TLS configuration of a cluster's clients; nil means plaintext.
type TLSConfig func(ctx context.Context, cluster *unstructured.Unstructured) (*tls.Config, error)

// SecretTLS reads the TLS configuration from the Secrets that a cluster's spec names. Reader is uncached.
func SecretTLS(reader client.Reader) TLSConfig {
	return func(ctx context.Context, u *unstructured.Unstructured) (*tls.Config, error) {
		cluster := &etcdv1alpha2.EtcdCluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cluster); err != nil {
			return nil, fmt.Errorf("read EtcdCluster %q: %w", u.GetName(), err)
		}
		return etcd.TLSFor(ctx, reader, cluster)
	}
}

// ask asks every ready member, or all where none is ready, for its state, and where the cluster looks whole for its hash at a revision that all of them have. What does not answer is a
// fact, not an error.
func (r *Reconciler) ask(ctx context.Context, w *world) {
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	config, err := r.TLS(ctx, w.cluster)
	members, anyReady := w.seen.Members, w.seen.anyReady()
	readers := make([]etcd.Reader, len(members))
	each(len(members), func(i int) {
		m := &members[i]
		if !m.Ready && anyReady {
			return
		}
		m.Etcd.Asked = true
		if err != nil {
			m.Etcd.Error = bound(err.Error())
			return
		}
		readers[i], m.Etcd = r.askState(ctx, memberTarget(w.cluster, m.Name, config))
	})
	if w.seen.complete() {
		askHashes(ctx, members, readers)
		if readers[0] != nil {
			r.askKeys(ctx, w, &members[0], readers[0])
			r.askRead(ctx, w, memberTarget(w.cluster, members[0].Name, config))
		}
	}
	for _, reader := range readers {
		if reader != nil {
			_ = reader.Close()
		}
	}
}

func (r *Reconciler) askState(ctx context.Context, target etcd.Target) (etcd.Reader, EtcdFacts) {
	reader, err := r.Dialer.Dial(target)
	if err != nil {
		return nil, EtcdFacts{Asked: true, Error: bound(err.Error())}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := reader.Status(ctx)
	if err != nil {
		return reader, EtcdFacts{Asked: true, Error: bound(err.Error())}
	}
	return reader, EtcdFacts{Asked: true, ClusterID: strconv.FormatUint(s.ClusterID, 16), Revision: s.Revision, Alarms: s.Errors, Learner: s.Learner, DBSize: s.DBSize}
}

// askHashes compares the members at the highest revision that each of them has. Hashes count only where all have compacted equally far, as what is
// compacted is not hashed.
func askHashes(ctx context.Context, members []MemberFacts, readers []etcd.Reader) {
	var revision int64
	for i := range members {
		e := members[i].Etcd
		if !e.Asked || e.Error != "" {
			return
		}
		if revision == 0 || e.Revision < revision {
			revision = e.Revision
		}
	}
	hashes := make([]etcd.Hash, len(members))
	each(len(members), func(i int) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		h, err := readers[i].HashKV(ctx, revision)
		if err != nil {
			members[i].Etcd.Error = bound(err.Error())
			return
		}
		hashes[i], members[i].Etcd.Hash = h, h.Hash
	})
	for i := range members {
		members[i].Etcd.HashKnown = members[i].Etcd.Error == "" && hashes[i].CompactRevision == hashes[0].CompactRevision
	}
}

func each(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}
