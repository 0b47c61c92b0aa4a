package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// story repeats on the double what was done to the real operator while the transcripts were recorded, one chapter a transcript. Each begins where the last ended.
type story struct {
	*lab
	cluster *etcdv1alpha2.EtcdCluster
}

type chapter struct {
	transcript string
	act        func(*story, context.Context) error
	before     func(*story, context.Context) error // while nobody records
}

var chapters = []chapter{
	{transcript: "01-bootstrap-3", act: (*story).bootstrap},
	{transcript: "02-snapshot-ok", act: (*story).snapshotOK},
	{transcript: "03-edit-reaches-nobody-then-member-roll", act: (*story).editAndRoll},
	{transcript: "04-snapshot-bad-credentials", act: (*story).badCredentials},
	{transcript: "05-scale-3-1", act: func(s *story, ctx context.Context) error { return s.scaleTo(ctx, 1) }},
	{transcript: "06-park-and-wake", act: (*story).parkAndWake},
	{transcript: "07-delete-and-restore-prepared", act: (*story).deleteAndRestore},
	{transcript: "08-restore-from-missing-object", act: (*story).restoreFromNothing},
	{transcript: "09-snapshot-hangs-without-client-service-san", act: (*story).hang, before: (*story).prepareHang},
}

// TestTranscripts compares the double's order of events with recordings of the real operator. It needs TRANSCRIPTS, the folder of the recordings.
func TestTranscripts(t *testing.T) {
	dir := os.Getenv("TRANSCRIPTS")
	if dir == "" {
		t.Skip("TRANSCRIPTS names no folder with recordings of the real operator")
	}
	target := targetOf(t, startEnv(t, false))
	require.NoError(t, withLab(t.Context(), target, func(ctx context.Context, l *lab) error {
		s := &story{lab: l}
		for _, c := range chapters {
			if s.cluster == nil && c.transcript != chapters[0].transcript {
				return errors.New("the first chapter failed, so the others have no cluster")
			}
			t.Run(c.transcript, func(t *testing.T) { s.tell(ctx, t, c, filepath.Join(dir, c.transcript+".jsonl")) })
		}
		return nil
	}))
}

func (s *story) tell(ctx context.Context, t *testing.T, c chapter, file string) {
	recorded, err := readHistory(file)
	require.NoError(t, err)
	if c.before != nil {
		require.NoError(t, c.before(s, ctx))
	}
	r, err := record(ctx, s.Client, s.ns)
	require.NoError(t, err)
	begun := r.settle(ctx)
	require.NoError(t, c.act(s, ctx))
	r.settle(ctx)
	// In the recordings what existed before is listed within the first two seconds.
	require.Empty(t, differences(lives(recorded, 2), lives(r.end(), begun)))
}

func readHistory(file string) ([]event, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var out []event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var raw struct {
			T      float64        `json:"t"`
			Event  string         `json:"event"`
			Object map[string]any `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		e := event{T: raw.T, Event: raw.Event}
		e.Object.Object = raw.Object
		out = append(out, e)
	}
	return out, lines.Err()
}

func (s *story) bootstrap(ctx context.Context) error {
	s.cluster = s.lab.cluster(3)
	if err := s.Client.Create(ctx, s.cluster); err != nil {
		return err
	}
	// The certificates come after the cluster, as cert-manager's do.
	waiting := func() error {
		return s.condition(ctx, s.cluster, etcdv1alpha2.ConditionProgressing, etcdv1alpha2.ReasonWaitingForSeed)
	}
	return errors.Join(s.until(ctx, "WaitingForSeed", waiting), s.certificates(ctx), s.whole(ctx, s.cluster))
}

func (s *story) snapshotOK(ctx context.Context) error {
	_, err := s.taken(ctx, "ok1", s.ns)
	return err
}

func (s *story) editAndRoll(ctx context.Context) error {
	old := s.cluster.DeepCopy()
	s.cluster.Spec.Options.SnapshotCount = ptr.To[int64](12345)
	if err := errors.Join(s.Client.Patch(ctx, s.cluster, client.MergeFrom(old)), s.whole(ctx, s.cluster)); err != nil {
		return err
	}
	ms, err := s.members(ctx)
	if err != nil {
		return err
	}
	seed := &ms[slices.IndexFunc(ms, func(m etcdv1alpha2.EtcdMember) bool { return m.Spec.Bootstrap })]
	before := seed.DeepCopy()
	seed.Spec.Options.SnapshotCount = ptr.To[int64](12345)
	return errors.Join(s.Client.Patch(ctx, seed, client.MergeFrom(before)), s.rebuilt(ctx, seed.Name), s.healthy(ctx))
}

// healthy waits for the cluster's status to say again that every member is ready.
func (s *story) healthy(ctx context.Context) error {
	return s.until(ctx, "QuorumHealthy", func() error {
		return s.condition(ctx, s.cluster, etcdv1alpha2.ConditionDegraded, etcdv1alpha2.ReasonQuorumHealthy)
	})
}

func (s *story) badCredentials(ctx context.Context) error {
	wrong := map[string][]byte{etcdv1alpha2.AccessKeyIDKey: []byte(s.Store.AccessKey), etcdv1alpha2.SecretAccessKeyKey: []byte("wrong")}
	right := map[string][]byte{etcdv1alpha2.AccessKeyIDKey: []byte(s.Store.AccessKey), etcdv1alpha2.SecretAccessKeyKey: []byte(s.Store.SecretKey)}
	if err := s.secret(ctx, credsSecret, wrong); err != nil {
		return err
	}
	bad, err := s.snapshot(ctx, "bad1", clusterName, s.ns)
	return errors.Join(err, s.phase(ctx, bad, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonJobFailed), s.secret(ctx, credsSecret, right))
}

func (s *story) scaleTo(ctx context.Context, replicas int32) error {
	if err := errors.Join(s.scale(ctx, s.cluster, replicas), s.whole(ctx, s.cluster)); err != nil {
		return err
	}
	return s.until(ctx, "the PVCs of those that left to go", func() error {
		list := &corev1.PersistentVolumeClaimList{}
		if err := s.Client.List(ctx, list, client.InNamespace(s.ns)); err != nil {
			return err
		}
		if len(list.Items) != int(replicas) {
			return fmt.Errorf("%d PVCs", len(list.Items))
		}
		return nil
	})
}

func (s *story) parkAndWake(ctx context.Context) error {
	paused := func() error {
		pods, err := s.memberPods(ctx)
		if err != nil || len(pods) > 0 {
			return fmt.Errorf("%d Pods: %w", len(pods), err)
		}
		return s.condition(ctx, s.cluster, etcdv1alpha2.ConditionAvailable, etcdv1alpha2.ReasonPaused)
	}
	return errors.Join(s.scale(ctx, s.cluster, 0), s.until(ctx, "Paused", paused), s.scaleTo(ctx, 1))
}

func (s *story) deleteAndRestore(ctx context.Context) error {
	c, err := s.restored(ctx, s.cluster, s.ns+"/ok1.db", 3)
	if err != nil {
		return err
	}
	s.cluster = c
	return s.whole(ctx, c)
}

func (s *story) restoreFromNothing(ctx context.Context) error {
	c, err := s.restored(ctx, s.cluster, s.ns+"/nothing.db", 3)
	if err != nil {
		return err
	}
	s.cluster = c
	return s.initFails(ctx, c)
}

// hang begins with a healthy cluster of one whose certificate lacks the name, made while nobody records.
func (s *story) hang(ctx context.Context) error {
	snapshot, err := s.snapshot(ctx, "hang1", clusterName, s.ns)
	if err != nil {
		return err
	}
	return s.until(ctx, "a running snapshot Pod", func() error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot); err != nil {
			return err
		}
		pods := &corev1.PodList{}
		if err := s.Client.List(ctx, pods, client.InNamespace(s.ns), client.MatchingLabels{"job-name": "hang1-snapshot"}); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning || snapshot.Status.Phase != etcdv1alpha2.SnapshotStarted {
			return fmt.Errorf("%d Pods, snapshot %s", len(pods.Items), snapshot.Status.Phase)
		}
		return nil
	})
}

// prepareHang replaces the cluster before the last chapter's recording.
func (s *story) prepareHang(ctx context.Context) error {
	if err := s.Client.Delete(ctx, s.cluster); err != nil {
		return err
	}
	for _, list := range []client.ObjectList{&etcdv1alpha2.EtcdMemberList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}} {
		if err := s.until(ctx, "the old cluster to go", func() error { return s.none(ctx, list) }); err != nil {
			return err
		}
	}
	s.serverNames = without(s.serverNames, clusterName+"-client."+s.ns+".svc")
	c, err := s.running(ctx, 1)
	s.cluster = c
	return err
}

// settle waits until no event has come for a while and returns the time since the recording began.
func (r *recorder) settle(ctx context.Context) float64 {
	for last := -1; ctx.Err() == nil; {
		r.mu.Lock()
		n := len(r.events)
		r.mu.Unlock()
		if n == last {
			break
		}
		last = n
		select {
		case <-ctx.Done():
		case <-time.After(700 * time.Millisecond):
		}
	}
	return time.Since(r.began).Seconds()
}
