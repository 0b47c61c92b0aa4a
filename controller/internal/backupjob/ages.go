package backupjob

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
)

// ages keeps the metric of each application at its last success: after a restart, finished jobs are seen in any order.
type ages struct {
	mu   sync.Mutex
	last map[client.ObjectKey]time.Time
}

func (a *ages) record(application client.ObjectKey, completed time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !completed.After(a.last[application]) {
		return
	}
	if a.last == nil {
		a.last = map[client.ObjectKey]time.Time{}
	}
	a.last[application] = completed
	metrics.LastBackup.WithLabelValues(application.Namespace, application.Name).Set(float64(completed.Unix()))
}
