package restorejob

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorereport"
)

// listing is the key list of one live member. That it ends early is a fact for the report, not a failure of the proof.
type listing struct {
	live restorereport.Live
	keys etcd.Keys
}

// openListing asks the members of a live cluster, and takes the one that knows most. It never fails: the report says what is missing.
func (r *Reconciler) openListing(ctx context.Context, cluster *unstructured.Unstructured) *listing {
	l := &listing{}
	if cluster == nil {
		l.live.Error = "there is no live cluster"
		return l
	}
	names, err := r.memberNames(ctx, cluster)
	if err != nil {
		l.live.Error = bound(err.Error())
		return l
	}
	answers := r.askRevisions(ctx, cluster, names)
	id := clusterFacts(cluster, "").ClusterID
	best := -1
	l.live.Error = "no member is there"
	for i, a := range answers {
		switch {
		case a.Error != "":
			l.live.Error = "no member answers; one says: " + a.Error
		case a.ClusterID == id && (best < 0 || a.Revision > answers[best].Revision):
			best = i
		}
	}
	if best < 0 {
		return l
	}
	config, err := r.TLS(ctx, cluster)
	if err == nil {
		l.keys, err = r.Keys.DialKeys(memberTarget(cluster, names[best], config))
	}
	if err != nil {
		l.live.Error = bound(err.Error())
		return l
	}
	l.live = restorereport.Live{Member: names[best]}
	return l
}

// all gives the keys for the comparison. An error ends the list and makes the comparison worthless, which the live part of the report then says.
func (l *listing) all(ctx context.Context) iter.Seq2[[]byte, error] {
	if l.keys == nil {
		return nil
	}
	return func(yield func([]byte, error) bool) {
		for key, err := range l.keys.List(ctx) {
			if err != nil {
				l.live.Error = bound(fmt.Sprintf("the list of live keys ended early: %v", err))
				return
			}
			l.live.Keys++
			if !yield(key, nil) {
				return
			}
		}
		l.live.Revision = l.keys.Revision()
	}
}

func (l *listing) close() {
	if l.keys != nil {
		_ = l.keys.Close()
	}
}
