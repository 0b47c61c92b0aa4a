package restorejob

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

// liveRevisions asks every member of the cluster that is about to be replaced for its revision. Quorum tells that those who answered are one: whatever
// revision a client has seen, one of them knows it. A member that does not answer is no error.
func (r *Reconciler) liveRevisions(ctx context.Context, w *world) (revisions []int64, quorum bool, err error) {
	if w.cluster == nil {
		return nil, false, nil
	}
	names, err := r.memberNames(ctx, w.cluster)
	if err != nil {
		return nil, false, err
	}
	answers := r.askRevisions(ctx, w.cluster, names)
	voters := 0
	for _, a := range answers {
		if a.Error != "" || a.ClusterID != w.seen.Cluster.ClusterID {
			continue
		}
		revisions = append(revisions, a.Revision)
		if !a.Learner {
			voters++
		}
	}
	return revisions, voters > max(len(names), int(w.seen.Cluster.Replicas))/2, nil
}

// memberNames are those of a cluster's own members.
func (r *Reconciler) memberNames(ctx context.Context, cluster *unstructured.Unstructured) ([]string, error) {
	list := &etcdv1alpha2.EtcdMemberList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{etcdv1alpha2.LabelCluster: cluster.GetName()}); err != nil {
		return nil, fmt.Errorf("list EtcdMembers: %w", err)
	}
	var names []string
	for i := range list.Items {
		if c := metav1.GetControllerOf(&list.Items[i]); c != nil && c.UID == cluster.GetUID() {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

func memberTarget(cluster *unstructured.Unstructured, member string, config *tls.Config) etcd.Target {
	return etcd.Target{Host: fmt.Sprintf("%s.%s.%s.svc", member, cluster.GetName(), cluster.GetNamespace()), Port: clientPort, TLS: config}
}

func (r *Reconciler) askRevisions(ctx context.Context, cluster *unstructured.Unstructured, names []string) []EtcdFacts {
	answers := make([]EtcdFacts, len(names))
	config, err := r.TLS(ctx, cluster)
	each(len(names), func(i int) {
		if err != nil {
			answers[i].Error = bound(err.Error())
			return
		}
		var reader etcd.Reader
		reader, answers[i] = r.askState(ctx, memberTarget(cluster, names[i], config))
		if reader != nil {
			_ = reader.Close()
		}
	})
	return answers
}

// askKeys counts the keys at the revision that the restored cluster started with, so what clients have written since does not count. One member is enough:
// the others' hashes are compared with its. A cluster with auth on does not let us count, and one that has compacted further no longer knows.
func (r *Reconciler) askKeys(ctx context.Context, w *world, m *MemberFacts, reader etcd.Reader) {
	rec := w.record
	proven, start := rec.StartProof(), rec.StartRevision()
	if proven == nil || proven.AuthEnabled || !rec.Prepared.Stored() || m.Etcd.Error != "" || m.Etcd.Revision < start {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	n, err := reader.CountKeys(ctx, start)
	switch {
	case err == nil:
		m.Etcd.Keys, m.Etcd.KeysKnown = n, true
	case !errors.Is(err, etcd.ErrCompacted):
		m.Etcd.Error = bound(err.Error())
	}
}

// recheckWork is a net: the end of a step in the background wakes its job.
const recheckWork = 10 * time.Second
