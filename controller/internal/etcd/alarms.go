package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// AlarmDialer opens connections that lift alarms.
type AlarmDialer interface {
	DialAlarms(target Target) (Alarms, error)
}

// Alarms lifts alarms of a cluster through one server.
type Alarms interface {
	// DisarmNoSpace lifts every alarm of a full database, also those of members that are gone, and no other. None is no error. It needs quorum.
	DisarmNoSpace(ctx context.Context) error
	Close() error
}

// DialAlarms implements AlarmDialer.
func (d NetDialer) DialAlarms(t Target) (Alarms, error) {
	r, err := d.dial(t)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reader) DisarmNoSpace(ctx context.Context) error {
	raised, err := r.c.AlarmList(ctx)
	if err != nil {
		return r.wrap("alarm list", err)
	}
	for _, a := range raised.Alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		// Each by its own name: a request without any lifts alarms of every kind.
		if _, err := r.c.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm}); err != nil {
			return r.wrap("lifting of the NOSPACE alarm", err)
		}
	}
	return nil
}
