package etcdoperator

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

const (
	imageRepository = "quay.io/coreos/etcd"
	operatorImage   = "ghcr.io/cozystack/cozystack/etcd-operator"
	dataPath        = "/var/lib/etcd"
	clientTLSPath   = "/etc/etcd/tls/client"
	peerTLSPath     = "/etc/etcd/tls/peer"
)

func hostName(namespace, cluster, member string) string {
	return member + "." + cluster + "." + namespace + ".svc"
}

func scheme(secret *corev1.LocalObjectReference) string {
	if secret == nil {
		return "http"
	}
	return "https"
}

func tlsOf(m *etcdv1alpha2.EtcdMember) etcdv1alpha2.MemberTLS {
	if m.Spec.TLS == nil {
		return etcdv1alpha2.MemberTLS{}
	}
	return *m.Spec.TLS
}

func clientURL(m *etcdv1alpha2.EtcdMember) string {
	return scheme(tlsOf(m).ClientServerSecretRef) + "://" + hostName(m.Namespace, m.Spec.ClusterName, m.Name) + ":2379"
}

func peerURL(m *etcdv1alpha2.EtcdMember) string {
	return scheme(tlsOf(m).PeerSecretRef) + "://" + hostName(m.Namespace, m.Spec.ClusterName, m.Name) + ":2380"
}

// memberPod is built from the member's spec alone.
func memberPod(m *etcdv1alpha2.EtcdMember, mode Mode) *corev1.Pod {
	labels := memberLabels(m.Spec.ClusterName, m.Name, m.Spec.AdditionalMetadata)
	if m.Status.IsVoter {
		labels[etcdv1alpha2.LabelRole] = etcdv1alpha2.RoleVoter
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: labels, Annotations: annotations(m.Spec.AdditionalMetadata)},
		Spec: corev1.PodSpec{
			Hostname: m.Name, Subdomain: m.Spec.ClusterName, Affinity: m.Spec.Affinity, TopologySpreadConstraints: m.Spec.TopologySpreadConstraints,
			ImagePullSecrets: m.Spec.ImagePullSecrets, AutomountServiceAccountToken: ptr.To(false),
			Volumes: []corev1.Volume{dataVolume(m)},
		},
	}
	mounts := []corev1.VolumeMount{{Name: "data", MountPath: dataPath}}
	if ref := tlsOf(m).ClientServerSecretRef; ref != nil {
		pod.Spec.Volumes = append(pod.Spec.Volumes, secretVolume("tls-client", ref.Name))
		mounts = append(mounts, corev1.VolumeMount{Name: "tls-client", MountPath: clientTLSPath, ReadOnly: true})
	}
	if ref := tlsOf(m).PeerSecretRef; ref != nil {
		pod.Spec.Volumes = append(pod.Spec.Volumes, secretVolume("tls-peer", ref.Name))
		mounts = append(mounts, corev1.VolumeMount{Name: "tls-peer", MountPath: peerTLSPath, ReadOnly: true})
	}
	if m.Spec.Restore != nil && m.Spec.Restore.Source.S3 != nil {
		pod.Spec.InitContainers = []corev1.Container{restoreContainer(m, mode, mounts[0])}
	}
	pod.Spec.Containers = []corev1.Container{{
		Name: etcdContainer, Image: imageRepository + ":v" + m.Spec.Version, ImagePullPolicy: corev1.PullIfNotPresent, Command: etcdCommand(m), VolumeMounts: mounts,
		Resources: m.Spec.Resources,
		Ports:     []corev1.ContainerPort{{Name: "client", ContainerPort: 2379}, {Name: "peer", ContainerPort: 2380}, {Name: "metrics", ContainerPort: 2381}},
		LivenessProbe: &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(2380)}},
			InitialDelaySeconds: 15, PeriodSeconds: 10,
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(2381)}},
			InitialDelaySeconds: 5, PeriodSeconds: 5,
		},
	}}
	return pod
}

func dataVolume(m *etcdv1alpha2.EtcdMember) corev1.Volume {
	v := corev1.Volume{Name: "data"}
	if m.Spec.Storage.Medium == etcdv1alpha2.StorageMediumMemory {
		size := m.Spec.Storage.Size
		v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}
		return v
	}
	v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + m.Name}
	return v
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}
}

func etcdCommand(m *etcdv1alpha2.EtcdMember) []string {
	state := "existing"
	if m.Spec.Bootstrap {
		state = "new"
	}
	tls := tlsOf(m)
	command := []string{
		"etcd", "--name=" + m.Name, "--data-dir=" + dataPath,
		"--listen-peer-urls=" + scheme(tls.PeerSecretRef) + "://0.0.0.0:2380",
		"--listen-client-urls=" + scheme(tls.ClientServerSecretRef) + "://0.0.0.0:2379",
		"--advertise-client-urls=" + clientURL(m), "--initial-advertise-peer-urls=" + peerURL(m),
		"--initial-cluster=" + m.Spec.InitialCluster, "--initial-cluster-token=" + m.Spec.ClusterToken, "--initial-cluster-state=" + state,
		"--listen-metrics-urls=http://0.0.0.0:2381",
	}
	command = append(command, optionFlags(m.Spec.Options)...)
	if tls.ClientServerSecretRef != nil {
		command = append(command, "--cert-file="+clientTLSPath+"/tls.crt", "--key-file="+clientTLSPath+"/tls.key")
		if tls.ClientMTLS {
			command = append(command, "--client-cert-auth=true", "--trusted-ca-file="+clientTLSPath+"/ca.crt")
		}
	}
	if tls.PeerSecretRef != nil {
		command = append(command, "--peer-cert-file="+peerTLSPath+"/tls.crt", "--peer-key-file="+peerTLSPath+"/tls.key",
			"--peer-trusted-ca-file="+peerTLSPath+"/ca.crt", "--peer-client-cert-auth=true")
	}
	return command
}

func optionFlags(o *etcdv1alpha2.EtcdOptions) []string {
	if o == nil {
		return nil
	}
	var flags []string
	if o.QuotaBackendBytes != nil {
		flags = append(flags, fmt.Sprintf("--quota-backend-bytes=%d", *o.QuotaBackendBytes))
	}
	if o.AutoCompactionMode != "" {
		flags = append(flags, "--auto-compaction-mode="+o.AutoCompactionMode)
	}
	if o.AutoCompactionRetention != "" {
		flags = append(flags, "--auto-compaction-retention="+o.AutoCompactionRetention)
	}
	if o.SnapshotCount != nil {
		flags = append(flags, fmt.Sprintf("--snapshot-count=%d", *o.SnapshotCount))
	}
	return flags
}

// restoreContainer is there at each rebuild of a restored seed, so each rebuild needs the credentials Secret.
func restoreContainer(m *etcdv1alpha2.EtcdMember, mode Mode, data corev1.VolumeMount) corev1.Container {
	env := []corev1.EnvVar{
		{Name: "ETCD_DATA_DIR", Value: dataPath}, {Name: "ETCD_MEMBER_NAME", Value: m.Name},
		{Name: "ETCD_INITIAL_CLUSTER", Value: m.Spec.InitialCluster}, {Name: "ETCD_INITIAL_CLUSTER_TOKEN", Value: m.Spec.ClusterToken},
		{Name: "ETCD_PEER_URLS", Value: peerURL(m)}, {Name: "ETCD_VERSION", Value: m.Spec.Version},
	}
	return corev1.Container{
		Name: "restore", Image: operatorImage + ":" + string(mode), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/manager", "restore-agent"}, Env: append(env, s3Env(m.Spec.Restore.Source.S3)...), VolumeMounts: []corev1.VolumeMount{data},
	}
}

func s3Env(s *etcdv1alpha2.S3Location) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "SNAPSHOT_DEST_KIND", Value: "s3"}, {Name: "S3_ENDPOINT", Value: s.Endpoint}, {Name: "S3_BUCKET", Value: s.Bucket}, {Name: "S3_KEY", Value: s.Key},
		{Name: "S3_REGION", Value: s.Region}, {Name: "S3_FORCE_PATH_STYLE", Value: strconv.FormatBool(s.ForcePathStyle)},
	}
	for _, key := range []string{etcdv1alpha2.AccessKeyIDKey, etcdv1alpha2.SecretAccessKeyKey} {
		env = append(env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: s.CredentialsSecretRef, Key: key},
		}})
	}
	return env
}
