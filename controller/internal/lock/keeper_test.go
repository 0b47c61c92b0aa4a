package lock

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func TestC60AFenceIsLiftedOnceItsReleaseIsGone(t *testing.T) {
	job := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "one", UID: "1"}}
	for _, c := range []struct {
		name    string
		release types.UID // of the release that is there; empty: none
		fenced  string
		holder  *Claim
		lifted  bool
	}{
		{name: "the release is there", release: "u", fenced: "etcd/u"},
		{name: "the release is gone", fenced: "etcd/u", lifted: true},
		{name: "another release has its name", release: "v", fenced: "etcd/u", lifted: true},
		{name: "a restore is under way", fenced: "etcd/u", holder: &Claim{Kind: "RestoreJob", Name: "one", UID: "1"}},
		{name: "a restore was under way and is gone", fenced: "etcd/u", holder: &Claim{Kind: "RestoreJob", Name: "gone", UID: "9"}, lifted: true},
		{name: "no release was there", fenced: ""},
		{name: "the annotation was edited", fenced: "u"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(job.DeepCopy())
			if c.release != "" {
				require.NoError(t, s.Client.Create(t.Context(), &fluxv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "etcd", UID: c.release}}))
			}
			l := read(t, s)
			l.Fence, l.Holder = &Fence{Job: "one", Source: "s3://b/k", Release: c.fenced}, c.holder
			l.Raise(7)
			require.NoError(t, s.Save(t.Context(), l))
			name, err := (&Keeper{Store: s}).Lift(t.Context(), "tenant", "etcd")
			require.NoError(t, err)
			require.Equal(t, c.lifted, name == "etcd")
			l = read(t, s)
			require.Equal(t, c.lifted, l.Fence == nil)
			require.EqualValues(t, 7, l.HighWater)
		})
	}
}
