package etcdoperator

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator/agent"
)

// snapshots runs one Job for each EtcdSnapshot.
type snapshots struct{ *Operator }

func (r snapshots) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	plan := r.Faults.now()
	s := &etcdv1alpha2.EtcdSnapshot{}
	if err := r.client.Get(ctx, req.NamespacedName, s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.Status.Phase == etcdv1alpha2.SnapshotComplete || s.Status.Phase == etcdv1alpha2.SnapshotFailed || !s.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if plan.Frozen || ask(plan.HoldSnapshot, s) {
		return r.soon(), nil
	}
	if s.Status.Phase == "" {
		before := s.DeepCopy()
		s.Status.Phase = etcdv1alpha2.SnapshotPending
		return r.soon(), r.client.Status().Patch(ctx, s, client.MergeFrom(before))
	}
	if plan.FailSnapshot != nil {
		if reason, message := plan.FailSnapshot(s); reason != "" {
			return ctrl.Result{}, r.phase(ctx, s, etcdv1alpha2.SnapshotFailed, reason, message)
		}
	}
	cluster := &etcdv1alpha2.EtcdCluster{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Spec.ClusterRef.Name}, cluster)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.phase(ctx, s, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonClusterNotFound,
			fmt.Sprintf("EtcdCluster %q not found", s.Spec.ClusterRef.Name))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.follow(ctx, s, cluster)
}

// follow creates the Job once and reports its end.
func (r snapshots) follow(ctx context.Context, s *etcdv1alpha2.EtcdSnapshot, cluster *etcdv1alpha2.EtcdCluster) error {
	job := &batchv1.Job{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name + "-snapshot"}, job)
	switch {
	case apierrors.IsNotFound(err) && s.Status.Phase == etcdv1alpha2.SnapshotStarted:
		return r.phase(ctx, s, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonSnapshotJobLost,
			"snapshot Job completed or was removed before its snapshot could be recorded; not re-running to avoid a duplicate snapshot")
	case apierrors.IsNotFound(err):
		if err := r.createOwned(ctx, s, snapshotJob(s, cluster, r.generation())); err != nil {
			return err
		}
		return r.phase(ctx, s, etcdv1alpha2.SnapshotStarted, etcdv1alpha2.ReasonJobCreated, "snapshot job created")
	case err != nil:
		return err
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed {
			return r.phase(ctx, s, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonJobFailed, "snapshot job failed")
		}
		if c.Type == batchv1.JobComplete {
			return r.store(ctx, s, job)
		}
	}
	if s.Status.Phase != etcdv1alpha2.SnapshotStarted {
		return r.phase(ctx, s, etcdv1alpha2.SnapshotStarted, etcdv1alpha2.ReasonJobRunning, "snapshot job running")
	}
	return nil
}

// store learns the artifact from the log of the Job's Pod.
func (r snapshots) store(ctx context.Context, s *etcdv1alpha2.EtcdSnapshot, job *batchv1.Job) error {
	list := &corev1.PodList{}
	if err := r.client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return err
	}
	for _, pod := range list.Items {
		up, ok := agent.ParseUploaded(r.node.Log(pod.Namespace, pod.Name))
		if !ok {
			continue
		}
		s.Status.Artifact = &etcdv1alpha2.SnapshotArtifact{URI: up.URI, SizeBytes: up.Size, Checksum: "sha256:" + up.SHA256}
		if lie := r.Faults.now().SnapshotResult; lie != nil {
			s.Status.Artifact = lie(s)
		}
		return r.phase(ctx, s, etcdv1alpha2.SnapshotComplete, etcdv1alpha2.ReasonSnapshotStored, "snapshot captured and stored")
	}
	return fmt.Errorf("no Pod of Job %s says what it stored", job.Name)
}

func (r snapshots) phase(ctx context.Context, s *etcdv1alpha2.EtcdSnapshot, phase etcdv1alpha2.EtcdSnapshotPhase, reason, message string) error {
	s.Status.Phase = phase
	done := phase == etcdv1alpha2.SnapshotComplete
	meta.SetStatusCondition(&s.Status.Conditions, condition(s.Generation, etcdv1alpha2.ConditionReady, done, reason, message))
	return client.IgnoreNotFound(r.client.Status().Update(ctx, s))
}

// snapshotJob dials the client Service and carries the cluster's label, as its Pods do.
func snapshotJob(s *etcdv1alpha2.EtcdSnapshot, c *etcdv1alpha2.EtcdCluster, mode Mode) *batchv1.Job {
	labels := map[string]string{etcdv1alpha2.LabelCluster: c.Name}
	plane := "http"
	env := []corev1.EnvVar{{Name: "SNAPSHOT_NAME", Value: s.Name}, {Name: "SNAPSHOT_UID", Value: string(s.UID)}}
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	mount := func(name, path, secret string) {
		volumes = append(volumes, secretVolume(name, secret))
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true})
	}
	if t := c.Spec.TLS; t != nil && t.Client != nil && t.Client.ServerSecretRef != nil {
		plane = "https"
		mount("etcd-ca", "/etc/etcd/pki/ca", t.Client.ServerSecretRef.Name)
		env = append(env, corev1.EnvVar{Name: "ETCD_TLS_CA_PATH", Value: "/etc/etcd/pki/ca/ca.crt"})
		if ref := t.Client.OperatorClientSecretRef; ref != nil {
			mount("etcd-client", "/etc/etcd/pki/client", ref.Name)
			env = append(env, corev1.EnvVar{Name: "ETCD_TLS_CERT_PATH", Value: "/etc/etcd/pki/client/tls.crt"},
				corev1.EnvVar{Name: "ETCD_TLS_KEY_PATH", Value: "/etc/etcd/pki/client/tls.key"})
		}
	}
	env = append(env, corev1.EnvVar{Name: "ETCD_ENDPOINTS", Value: fmt.Sprintf("%s://%s-client.%s.svc:2379", plane, c.Name, c.Namespace)})
	if s.Spec.Destination.S3 != nil {
		env = append(env, s3Env(s.Spec.Destination.S3)...)
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-snapshot", Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](3), ActiveDeadlineSeconds: ptr.To[int64](1800), TTLSecondsAfterFinished: ptr.To[int32](600),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false), Volumes: volumes,
					Containers: []corev1.Container{{
						Name: "snapshot-agent", Image: operatorImage + ":" + string(mode), Command: []string{"/manager", "snapshot-agent"}, Env: env, VolumeMounts: mounts,
					}},
				},
			},
		},
	}
}
