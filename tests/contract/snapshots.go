package contract

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	clientv3 "go.etcd.io/etcd/client/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func snapshotFacts(t *Target) []Fact {
	facts := []Fact{
		{"snapshot-stores", "Pending, Started, Complete with the reasons JobCreated and SnapshotStored; the artifact record fits the object; the stream ends with etcd's own hash.", snapshotStores},
		{"snapshot-pods-carry-label", "The Job, which has 3 retries and 30 minutes, and its Pods carry the cluster's label and stay after the end.", snapshotPodsCarryLabel},
		{"snapshot-key-is-prefix", "The destination's key is a prefix: one slash unless it ends in one, nothing trimmed.", snapshotKeyIsPrefix},
		{"snapshot-never-overwrites", "An object of another snapshot is not overwritten: the Job fails.", snapshotNeverOverwrites},
		{"snapshot-wrong-credentials", "Wrong credentials end as Failed/JobFailed after the back-off, with a message that does not say why.", snapshotWrongCredentials},
		{"snapshot-without-cluster", "A snapshot of no cluster fails at once with ClusterNotFound.", snapshotWithoutCluster},
		{"snapshot-hangs-without-name", "A server certificate without etcd-client.<ns>.svc lets the snapshot hang in Started.", snapshotHangsWithoutName},
	}
	if t.Store.Denying != "" {
		facts = append(facts, Fact{"snapshot-needs-list", "The agent looks for the object first, so credentials without the right to list fail on a new key.", snapshotNeedsList})
	}
	return facts
}

// location is a place in the target's bucket below a folder of the lab's own.
func (l *lab) location(key string) *etcdv1alpha2.S3Location {
	return &etcdv1alpha2.S3Location{
		Endpoint: l.Store.Inside, Bucket: l.Store.Bucket, Key: key, Region: l.Store.Region, ForcePathStyle: true,
		CredentialsSecretRef: corev1.LocalObjectReference{Name: credsSecret},
	}
}

func (l *lab) snapshot(ctx context.Context, name, cluster, key string) (*etcdv1alpha2.EtcdSnapshot, error) {
	s := &etcdv1alpha2.EtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}}
	s.Spec.ClusterRef.Name = cluster
	s.Spec.Destination.S3 = l.location(key)
	return s, l.Client.Create(ctx, s)
}

// taken takes a snapshot and waits for it.
func (l *lab) taken(ctx context.Context, name, key string) (*etcdv1alpha2.EtcdSnapshot, error) {
	s, err := l.snapshot(ctx, name, clusterName, key)
	if err != nil {
		return nil, err
	}
	return s, l.phase(ctx, s, etcdv1alpha2.SnapshotComplete, etcdv1alpha2.ReasonSnapshotStored)
}

func (l *lab) phase(ctx context.Context, s *etcdv1alpha2.EtcdSnapshot, phase etcdv1alpha2.EtcdSnapshotPhase, reason string) error {
	return l.within(ctx, 2*l.Patience, "snapshot "+string(phase), func() error {
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		cond := meta.FindStatusCondition(s.Status.Conditions, etcdv1alpha2.ConditionReady)
		if s.Status.Phase != phase || cond == nil || cond.Reason != reason {
			return fmt.Errorf("phase %s, %s", s.Status.Phase, describe(cond))
		}
		return nil
	})
}

// put writes a key into etcd.
func (l *lab) put(ctx context.Context, key, value string) error {
	return l.ask(ctx, l.serviceHost(), func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, key, value)
		return err
	})
}

func (l *lab) object(ctx context.Context, key string) ([]byte, map[string]string, error) {
	o, err := l.Store.Client().GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(l.Store.Bucket), Key: aws.String(key)})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = o.Body.Close() }()
	b, err := io.ReadAll(o.Body)
	return b, o.Metadata, err
}

func (l *lab) store(ctx context.Context, key string, content []byte, metadata map[string]string) error {
	_, err := l.Store.Client().PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(l.Store.Bucket), Key: aws.String(key), Body: bytes.NewReader(content), Metadata: metadata,
	})
	return err
}

func snapshotStores(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		if err := l.put(ctx, "a", "1"); err != nil {
			return err
		}
		if _, err := l.snapshot(ctx, "s1", clusterName, l.ns); err != nil {
			return err
		}
		var seen []string
		s := &etcdv1alpha2.EtcdSnapshot{}
		err := l.follow(ctx, &etcdv1alpha2.EtcdSnapshotList{}, func(o client.Object) (bool, error) {
			now, ok := o.(*etcdv1alpha2.EtcdSnapshot)
			if !ok {
				return false, nil
			}
			s = now
			state := string(s.Status.Phase)
			for _, c := range s.Status.Conditions {
				state += "/" + c.Type + "=" + string(c.Status) + "/" + c.Reason
			}
			if len(seen) == 0 || seen[len(seen)-1] != state {
				seen = append(seen, state)
			}
			return s.Status.Phase == etcdv1alpha2.SnapshotComplete || s.Status.Phase == etcdv1alpha2.SnapshotFailed, nil
		})
		if err != nil {
			return err
		}
		history := strings.Join(seen, " ")
		if want := "Started/Ready=False/JobCreated Complete/Ready=True/SnapshotStored"; !strings.HasSuffix(history, want) {
			return fmt.Errorf("states %s", history)
		}
		return l.checkArtifact(ctx, s, l.ns+"/s1.db")
	})
}

func (l *lab) checkArtifact(ctx context.Context, s *etcdv1alpha2.EtcdSnapshot, key string) error {
	content, metadata, err := l.object(ctx, key)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	database, hash := content[:len(content)-sha256.Size], content[len(content)-sha256.Size:]
	inner := sha256.Sum256(database)
	a := s.Status.Artifact
	switch {
	case a == nil:
		return errors.New("no artifact")
	case a.URI != "s3://"+l.Store.Bucket+"/"+key:
		return fmt.Errorf("uri %q", a.URI)
	case a.SizeBytes != int64(len(content)) || a.Checksum != "sha256:"+hex.EncodeToString(sum[:]):
		return fmt.Errorf("record %+v of %d bytes with sha256 %x", *a, len(content), sum)
	case len(content)%512 != sha256.Size || !bytes.Equal(hash, inner[:]):
		return fmt.Errorf("%d bytes do not end with the hash of the rest", len(content))
	case metadata["etcd-snapshot-uid"] != string(s.UID):
		return fmt.Errorf("user metadata %v", metadata)
	}
	return nil
}

func snapshotPodsCarryLabel(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		if _, err := l.taken(ctx, "s1", l.ns); err != nil {
			return err
		}
		return l.stays(ctx, "the finished Job and its Pod", func() error {
			job, pods := &batchv1.Job{}, &corev1.PodList{}
			if err := l.Client.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: "s1-snapshot"}, job); err != nil {
				return err
			}
			if err := l.Client.List(ctx, pods, client.InNamespace(l.ns), client.MatchingLabels{etcdv1alpha2.LabelCluster: clusterName}); err != nil {
				return err
			}
			members, err := l.memberPods(ctx)
			if err != nil {
				return err
			}
			if len(pods.Items) != 2 || len(members) != 1 || job.Labels[etcdv1alpha2.LabelCluster] != clusterName || *job.Spec.TTLSecondsAfterFinished != 600 {
				return fmt.Errorf("%d Pods with the label, %d of members, Job labels %v", len(pods.Items), len(members), job.Labels)
			}
			if retries, deadline := job.Spec.BackoffLimit, job.Spec.ActiveDeadlineSeconds; retries == nil || *retries != 3 || deadline == nil || *deadline != 1800 {
				return fmt.Errorf("the Job's limits are %v retries and %v s, not 3 and 1800", retries, deadline)
			}
			return nil
		})
	})
}

func snapshotKeyIsPrefix(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		for i, c := range []struct{ prefix, want string }{
			{l.ns, l.ns + "/s0.db"}, {l.ns + "/", l.ns + "/s1.db"}, {l.ns + "//", l.ns + "//s2.db"}, {"/" + l.ns, "/" + l.ns + "/s3.db"}, {"", "s4.db"},
		} {
			name := fmt.Sprintf("s%d", i)
			if c.prefix == "" {
				name = "s4-" + l.ns
				c.want = name + ".db"
			}
			s, err := l.taken(ctx, name, c.prefix)
			if err != nil {
				return fmt.Errorf("prefix %q: %w", c.prefix, err)
			}
			if got := s.Status.Artifact.URI; got != "s3://"+l.Store.Bucket+"/"+c.want {
				return fmt.Errorf("prefix %q gives %s", c.prefix, got)
			}
		}
		return nil
	})
}

func snapshotNeverOverwrites(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		key := l.ns + "/s1.db"
		if err := l.store(ctx, key, []byte("other"), map[string]string{"etcd-snapshot-uid": "somebody-else"}); err != nil {
			return err
		}
		s, err := l.snapshot(ctx, "s1", clusterName, l.ns)
		if err != nil {
			return err
		}
		if err := l.phase(ctx, s, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonJobFailed); err != nil {
			return err
		}
		if content, _, err := l.object(ctx, key); err != nil || string(content) != "other" {
			return fmt.Errorf("the other object holds %d bytes now: %w", len(content), err)
		}
		return nil
	})
}

func snapshotWrongCredentials(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		wrong := map[string][]byte{etcdv1alpha2.AccessKeyIDKey: []byte(l.Store.AccessKey), etcdv1alpha2.SecretAccessKeyKey: []byte("wrong")}
		if err := l.secret(ctx, credsSecret, wrong); err != nil {
			return err
		}
		return l.failsQuietly(ctx, l.ns)
	})
}

func (l *lab) failsQuietly(ctx context.Context, key string) error {
	s, err := l.snapshot(ctx, "s1", clusterName, key)
	if err != nil {
		return err
	}
	if err := l.phase(ctx, s, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonJobFailed); err != nil {
		return err
	}
	job := &batchv1.Job{}
	if err := l.Client.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: "s1-snapshot"}, job); err != nil {
		return err
	}
	message := s.Status.Conditions[0].Message
	if job.Status.Failed != 4 || s.Status.Artifact != nil || message != "snapshot job failed" {
		return fmt.Errorf("%d failed Pods, artifact %v, message %q", job.Status.Failed, s.Status.Artifact, message)
	}
	return nil
}

func snapshotNeedsList(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		denied := *l.Target
		denied.Store.Inside = l.Store.Denying
		l.Target = &denied
		return l.failsQuietly(ctx, l.ns)
	})
}

func snapshotWithoutCluster(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		s, err := l.snapshot(ctx, "s1", "nobody", l.ns)
		if err != nil {
			return err
		}
		return l.phase(ctx, s, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonClusterNotFound)
	})
}

func snapshotHangsWithoutName(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		l.serverNames = without(l.serverNames, clusterName+"-client."+l.ns+".svc")
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		s, err := l.snapshot(ctx, "s1", clusterName, l.ns)
		if err != nil {
			return err
		}
		started := func() error {
			if err := l.Client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
				return err
			}
			if s.Status.Phase != etcdv1alpha2.SnapshotStarted || s.Status.Conditions[0].Reason != etcdv1alpha2.ReasonJobCreated {
				return fmt.Errorf("phase %s, %s", s.Status.Phase, describe(s.Status.Conditions))
			}
			return nil
		}
		if err := l.until(ctx, "Started", started); err != nil {
			return err
		}
		return l.stays(ctx, "Started", started)
	})
}
