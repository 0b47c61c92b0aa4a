package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
)

const (
	// kindsPatience is how long a controller waits for a kind that it watches. It is in fact without end: a platform may install its parts in any order, and a
	// process that ends over it only adds a growing back-off to the wait.
	kindsPatience = 10 * 365 * 24 * time.Hour
	// kindsRecheck is how often kinds that are absent are looked for again.
	kindsRecheck = time.Minute
)

// requiredKinds are watched from the start; the controllers wait until they are served.
func requiredKinds() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{strategyv1alpha1.GroupVersion.WithKind(strategyv1alpha1.EtcdKind)}
	for _, kind := range []string{"BackupClass", "BackupJob", "Backup", "RestoreJob", "Plan"} {
		kinds = append(kinds, backupsv1alpha1.GroupVersion.WithKind(kind))
	}
	for _, kind := range []string{"EtcdCluster", "EtcdMember", "EtcdSnapshot"} {
		kinds = append(kinds, etcdv1alpha2.GroupVersion.WithKind(kind))
	}
	return kinds
}

// optionalKinds are watched or read only where they are served when the process starts.
func optionalKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		fluxv2.GroupVersion.WithKind("HelmRelease"),
		{Group: backupsv1alpha1.DefaultApplicationGroup, Version: backupsv1alpha1.DefaultApplicationVersion, Kind: backupsv1alpha1.EtcdApplicationKind},
	}
}

// absent are those of the kinds that the API server does not serve. One that cannot be asked for counts as served.
func absent(mapper meta.RESTMapper, kinds []schema.GroupVersionKind) []schema.GroupVersionKind {
	var gone []schema.GroupVersionKind
	for _, kind := range kinds {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			gone = append(gone, kind)
		}
	}
	return gone
}

// kindsServed is the readiness detail about required kinds. It costs a call only while one is absent.
func kindsServed(mapper meta.RESTMapper) func(*http.Request) error {
	return func(*http.Request) error {
		gone := absent(mapper, requiredKinds())
		if len(gone) == 0 {
			return nil
		}
		names := make([]string, 0, len(gone))
		for _, kind := range gone {
			names = append(names, fmt.Sprintf("%s of %s", kind.Kind, kind.GroupVersion()))
		}
		return fmt.Errorf("the API server does not serve %s: install their CustomResourceDefinitions; the controllers start when they are there", strings.Join(names, ", "))
	}
}

// arrivals ends the process when an optional kind comes that was absent at its start: the next one watches it.
type arrivals struct {
	mapper  meta.RESTMapper
	waiting []schema.GroupVersionKind
	every   time.Duration
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a replica that takes over must know the kinds, too.
func (*arrivals) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (a *arrivals) Start(ctx context.Context) error {
	if len(a.waiting) == 0 {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("some kinds are not served: the controller does without them, and starts anew when one comes", "kinds", a.waiting)
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if still := absent(a.mapper, a.waiting); len(still) < len(a.waiting) {
				return fmt.Errorf("a kind that was absent is served now, of %v: the process ends, to start with watches on it", a.waiting)
			}
		}
	}
}
