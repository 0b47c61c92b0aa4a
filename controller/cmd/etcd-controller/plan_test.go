package main

import (
	"flag"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
)

// counting is a manager that counts what is added to it.
type counting struct {
	ctrl.Manager
	added int
}

func (c *counting) Add(r manager.Runnable) error {
	c.added++
	return c.Manager.Add(r)
}

// Two controllers that make jobs for the same Plans would each back everything up.
func TestPlansAreLeftToCozystackOnRequest(t *testing.T) {
	for argument, controllers := range map[string]int{"--plans=false": 0, "--plans=true": 1} {
		var o options
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		o.register(fs)
		require.NoError(t, fs.Parse([]string{argument}))
		mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
			Scheme: api.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
			MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		})
		require.NoError(t, err)
		c := &counting{Manager: mgr}
		require.NoError(t, setupPlans(c, o, nil))
		require.Equal(t, controllers, c.added, argument)
	}
}
