package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/proof"
)

// byteSize is a flag of a Kubernetes quantity, such as 8Gi.
type byteSize int64

// String implements flag.Value.
func (b *byteSize) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

// Set implements flag.Value.
func (b *byteSize) Set(s string) error {
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() < 0 {
		return fmt.Errorf("%q is no size: write for example 8Gi", s)
	}
	*b = byteSize(q.Value())
	return nil
}

// newProver takes the scratch folder into use and removes what a controller that died has left there.
func newProver(reader client.Reader, o options) (*proof.Prover, error) {
	scratch, err := artifact.NewScratch(o.scratchDir, int64(o.scratchLimit), 1)
	if err != nil {
		return nil, fmt.Errorf("--scratch-dir: %w", err)
	}
	dir := o.etcdutlDir
	if dir == "" {
		dir = etcdutlDir()
	}
	return &proof.Prover{Reader: reader, Scratch: scratch, Tools: artifact.Tools{Dir: dir}}, nil
}

// etcdutlDir is the first of the usual folders that has an etcdutl. A restore that finds none of its minor is refused, so a lack of them shows then.
func etcdutlDir() string {
	program, err := os.Executable()
	if err != nil {
		return "bin"
	}
	own := filepath.Dir(program)
	for _, dir := range []string{own, filepath.Join(own, "bin"), "bin"} {
		if found, _ := filepath.Glob(filepath.Join(dir, "etcdutl-*")); len(found) > 0 {
			return dir
		}
	}
	return own
}
