// Package operator tells what the etcd-operator that runs can do.
package operator

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get

// ownEtcdutl is the first release that restores with the etcdutl of the target's image. Those before it have one of etcd 3.6 compiled in and refuse every
// other minor, and only after the former cluster is deleted.
var ownEtcdutl = version.MustParseSemantic("0.6.0")

// Minors that the two kinds of operators restore.
var (
	minorsCompiledIn = []string{"3.6"}
	minorsOfImages   = []string{"3.5", "3.6"}
)

// Abilities finds out which etcd minors the running operator can restore.
type Abilities struct {
	Reader client.Reader // uncached: the operator may have been upgraded, or rolled back, just now
	// Deployment of the operator; without a name nobody looks.
	Deployment types.NamespacedName
	// Otherwise is the answer where the Deployment or its image's tag does not tell.
	Otherwise []string
}

// Minors are the restorable etcd minors, such as 3.6.
func (a Abilities) Minors(ctx context.Context) ([]string, error) {
	if a.Deployment.Name == "" {
		return a.Otherwise, nil
	}
	d := &appsv1.Deployment{}
	if err := a.Reader.Get(ctx, a.Deployment, d); err != nil {
		if apierrors.IsNotFound(err) {
			return a.Otherwise, nil
		}
		return nil, fmt.Errorf("read the operator's Deployment %s: %w", a.Deployment, err)
	}
	v, err := version.ParseSemantic(tag(d.Spec.Template.Spec.Containers))
	switch {
	case err != nil:
		return a.Otherwise, nil //nolint:nilerr // a tag that is no version, or a digest alone, tells nothing
	case v.LessThan(ownEtcdutl): // so is a pre-release of it
		return minorsCompiledIn, nil
	}
	return minorsOfImages, nil
}

// tag is that of the operator's own container: the one whose image is called so, else the first. Others are side-cars.
func tag(containers []corev1.Container) string {
	for _, c := range containers {
		if name, tag := split(c.Image); strings.HasSuffix(name, "etcd-operator") {
			return tag
		}
	}
	if len(containers) == 0 {
		return ""
	}
	_, tag := split(containers[0].Image)
	return tag
}

// split cuts an image reference into name and tag. The colon of a registry's port comes before a slash.
func split(image string) (name, tag string) {
	image, _, _ = strings.Cut(image, "@")
	colon := strings.LastIndexByte(image, ':')
	if colon < 0 || strings.Contains(image[colon:], "/") {
		return image, ""
	}
	return image[:colon], image[colon+1:]
}

// ParseDeployment reads NAMESPACE/NAME; the empty text is none.
func ParseDeployment(text string) (types.NamespacedName, error) {
	if text == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q is not NAMESPACE/NAME", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
