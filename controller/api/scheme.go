// Package api gathers the kinds that the controller speaks.
package api

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	cozystackv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/cozystack/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
)

// NewScheme returns a scheme with Kubernetes' own kinds, CustomResourceDefinition, our kinds and the mirrors.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		backupsv1alpha1.AddToScheme,
		strategyv1alpha1.AddToScheme,
		etcdv1alpha2.AddToScheme,
		fluxv2.AddToScheme,
		kamajiv1alpha1.AddToScheme,
		cozystackv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}
