// Package etcdoperator is a double of the cozystack etcd-operator (v1alpha2): its objects, conditions, order of events and awkward sides, over real etcd processes. The
// facts it follows are checked one by one by tests/contract, which also runs against the real operator.
package etcdoperator

import (
	"time"

	"k8s.io/client-go/rest"

	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator/node"
	"github.com/cozy-etcd/cozy-etcd/tests/env/front"
)

// Mode says which generation of the operator is played.
type Mode string

const (
	// V054 restores with the etcdutl compiled into it and refuses every other minor in the init container, that is after a deletion.
	V054 Mode = "v0.5.4"
	// Later restores with the target image's own etcdutl.
	Later Mode = "later"
)

// compiledEtcdutl is the version inside v0.5.4.
const compiledEtcdutl = "3.6.11"

// Mutant is one deliberate fault of the double, for tests of the contract suite.
type Mutant string

// Mutants.
const (
	AvailableOnlyWhenWhole Mutant = "AvailableOnlyWhenWhole"
	NoClientService        Mutant = "NoClientService"
	TLSNamesUnverified     Mutant = "TLSNamesUnverified"
	RestoreWithHashCheck   Mutant = "RestoreWithHashCheck"
)

// Mutants lists all of them.
func Mutants() []Mutant {
	return []Mutant{AvailableOnlyWhenWhole, NoClientService, TLSNamesUnverified, RestoreWithHashCheck}
}

// Options of the double.
type Options struct {
	Config *rest.Config
	Router *front.Router
	Bin    string // folder with etcd-<version> and etcdutl-<version>
	Dir    string // scratch
	Mode   Mode   // default V054
	Mutant Mutant // default none
	// ClusterDomain is what reverse DNS answers with; default cluster.local.
	ClusterDomain string
	Timing        Timing
}

// Timing of the double; the zero value is fast. The node's part plays what a kubelet does in seconds.
type Timing struct {
	Poll time.Duration // how often the operator looks at etcd while something is under way
	Node node.Timing
}

func (o Options) withDefaults() Options {
	orDefault(&o.Mode, V054)
	orDefault(&o.ClusterDomain, "cluster.local")
	orDefault(&o.Timing.Poll, 100*time.Millisecond)
	t := &o.Timing.Node
	orDefault(&t.ReadinessDelay, 800*time.Millisecond)
	orDefault(&t.ProbePeriod, 100*time.Millisecond)
	orDefault(&t.CrashBackOff, 400*time.Millisecond)
	orDefault(&t.CrashBackOffTo, 3*time.Second)
	orDefault(&t.JobBackOff, 300*time.Millisecond)
	orDefault(&t.Relist, 700*time.Millisecond)
	orDefault(&t.StopGrace, 5*time.Second)
	return o
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
