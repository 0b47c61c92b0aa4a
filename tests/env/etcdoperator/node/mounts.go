package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// current is the link in a Secret's folder that is swapped at once, so that a key and its certificate always belong together.
const current = "current"

func (r *runner) mountsSecret(name string) bool {
	for _, v := range r.pod.Spec.Volumes {
		if v.Secret != nil && v.Secret.SecretName == name {
			return true
		}
	}
	return false
}

// mount fails until each claim is bound and each Secret exists.
func (r *runner) mount(ctx context.Context) error {
	for _, v := range r.pod.Spec.Volumes {
		if _, err := r.source(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// refreshSecrets brings changed Secrets into the folders of a running Pod. A Secret that is gone leaves its last content.
func (r *runner) refreshSecrets(ctx context.Context) error {
	r.mu.Lock()
	mounted := r.mounted
	r.mu.Unlock()
	if !mounted {
		return nil
	}
	for _, v := range r.pod.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := r.client.Get(ctx, types.NamespacedName{Namespace: r.key.Namespace, Name: v.Secret.SecretName}, secret); err != nil {
			continue
		}
		if _, err := r.writeSecret(v.Name, secret); err != nil {
			return err
		}
	}
	return nil
}

// source returns the folder behind a volume.
func (r *runner) source(ctx context.Context, v corev1.Volume) (string, error) {
	switch {
	case v.Secret != nil:
		secret := &corev1.Secret{}
		if err := r.client.Get(ctx, types.NamespacedName{Namespace: r.key.Namespace, Name: v.Secret.SecretName}, secret); err != nil {
			return "", err
		}
		return r.writeSecret(v.Name, secret)
	case v.PersistentVolumeClaim != nil:
		claim := &corev1.PersistentVolumeClaim{}
		if err := r.client.Get(ctx, types.NamespacedName{Namespace: r.key.Namespace, Name: v.PersistentVolumeClaim.ClaimName}, claim); err != nil {
			return "", err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return "", fmt.Errorf("claim %s is not bound", claim.Name)
		}
		return r.remember(v.Name, r.volumePath(claim.Spec.VolumeName)), nil
	default:
		dir := filepath.Join(r.folder(), "volumes", v.Name)
		return r.remember(v.Name, dir), os.MkdirAll(dir, 0o700)
	}
}

func (r *runner) remember(volume, dir string) string {
	r.change(func() { r.secrets[volume] = dir })
	return dir
}

func (r *runner) writeSecret(volume string, secret *corev1.Secret) (string, error) {
	root := filepath.Join(r.folder(), "volumes", volume)
	next := filepath.Join(root, "v"+secret.ResourceVersion)
	link := filepath.Join(root, current)
	if seen, err := os.Readlink(link); err == nil && seen == next {
		return link, nil
	}
	if err := os.MkdirAll(next, 0o700); err != nil {
		return "", err
	}
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(next, name), content, 0o600); err != nil {
			return "", err
		}
	}
	temporary := link + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := os.Symlink(next, temporary); err != nil {
		return "", err
	}
	if err := os.Rename(temporary, link); err != nil {
		return "", err
	}
	return r.remember(volume, link), nil
}

// hostPath translates a path inside a container.
func (r *runner) hostPath(c corev1.Container, path string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range c.VolumeMounts {
		if rest, ok := strings.CutPrefix(path, m.MountPath); ok && (rest == "" || rest[0] == '/') {
			dir := r.secrets[m.Name]
			if m.Name == dataVolume {
				dir = filepath.Join(dir, "etcd")
			}
			return dir + rest
		}
	}
	return path
}

// dataVolume is the volume of a member; etcd gets a folder below its root, as it wants to own and replace its data folder.
const dataVolume = "data"
