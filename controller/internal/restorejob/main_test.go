package restorejob

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	flipRow()
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	// The tests wait for the garbage collector most of the time, so more of them than there are processors run side by side.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	code := m.Run()
	stopPlatform()
	os.Exit(code)
}
