package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
)

// A platform's parts come in any order: a required kind that is absent shows in the readiness, and one that nobody needs shows when it comes.
func TestKinds(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	err := kindsServed(mapper)(nil)
	require.ErrorContains(t, err, "EtcdSnapshot of etcd-operator.cozystack.io/v1alpha2")
	require.ErrorContains(t, err, "Plan of backups.cozystack.io/v1alpha1")
	for _, kind := range requiredKinds() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	require.NoError(t, kindsServed(mapper)(nil))

	a := &arrivals{mapper: mapper, waiting: absent(mapper, optionalKinds()), every: time.Millisecond}
	require.Len(t, a.waiting, 2)
	mapper.Add(optionalKinds()[0], meta.RESTScopeNamespace)
	require.ErrorContains(t, a.Start(t.Context()), "HelmRelease")
	require.NoError(t, (&arrivals{mapper: mapper}).Start(t.Context()))
}

func TestLimitsOfTheFlags(t *testing.T) {
	good := func() options {
		return options{namespace: "x", backupDeadline: time.Hour, queueLimit: time.Hour, concurrency: 1, maxSnapshots: 1}
	}
	o := good()
	require.NoError(t, o.validate())
	for flag, edit := range map[string]func(*options){
		"--namespace": func(o *options) { o.namespace = "" }, "--backup-deadline": func(o *options) { o.backupDeadline = -time.Hour },
		"--queue-limit": func(o *options) { o.queueLimit = 0 }, "--concurrency": func(o *options) { o.concurrency = 0 },
		"--max-running-snapshots": func(o *options) { o.maxSnapshots = 0 },
	} {
		o := good()
		edit(&o)
		require.ErrorContains(t, o.validate(), flag)
	}
}
