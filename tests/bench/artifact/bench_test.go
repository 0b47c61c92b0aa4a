package artifact

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	product "github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
)

// BenchmarkArtifact compares the hash stage with sha256sum and the preparation with a plain restore by etcdutl, best of BENCH_SNAPSHOT_ROUNDS rounds that
// alternate. BENCH_SNAPSHOT_MIB lists sizes, by default those that the goals are stated for, BENCH_SNAPSHOT_FREE parts in a hundred of free pages.
func BenchmarkArtifact(b *testing.B) {
	sizes := os.Getenv("BENCH_SNAPSHOT_MIB")
	if sizes == "" {
		sizes = "1024,4096"
	}
	frees := os.Getenv("BENCH_SNAPSHOT_FREE")
	if frees == "" {
		frees = "0,30"
	}
	for _, size := range strings.Split(sizes, ",") {
		for _, free := range strings.Split(frees, ",") {
			b.Run(fmt.Sprintf("%sMiB/free%s%%", size, free), func(b *testing.B) {
				mib, err := strconv.ParseInt(size, 10, 64)
				require.NoError(b, err)
				percent, err := strconv.Atoi(free)
				require.NoError(b, err)
				measure(b, mib<<20, percent)
			})
		}
	}
}

// stage is a step's best round. The processor's time, of this process and its children, holds also where others use the machine.
type stage struct {
	best, cpu time.Duration
	kib       int64
}

// take runs a stage and keeps the shortest times and the highest memory.
func (s *stage) take(b *testing.B, run func() error) {
	b.Helper()
	debug.FreeOSMemory()
	stop, began, used := anonymous(), time.Now(), processor()
	err := run()
	took, kib := time.Since(began), stop()
	require.NoError(b, err)
	if used = processor() - used; s.cpu == 0 || used < s.cpu {
		s.cpu = used
	}
	if s.best == 0 || took < s.best {
		s.best = took
	}
	s.kib = max(s.kib, kib)
}

func measure(b *testing.B, size int64, freePercent int) {
	ctx, dir := b.Context(), b.TempDir()
	bin := os.Getenv("COZY_ETCD_BIN")
	if bin == "" {
		bin = "../../../bin"
	}
	bin, err := filepath.Abs(bin)
	require.NoError(b, err)
	path, err := makeSnapshot(ctx, bin, dir, size, freePercent)
	require.NoError(b, err)
	rounds := 3
	if s := os.Getenv("BENCH_SNAPSHOT_ROUNDS"); s != "" {
		rounds, err = strconv.Atoi(s)
		require.NoError(b, err)
	}
	var sum, hash, inspect, restore, prepare stage
	var sums product.Sums
	var facts product.Facts
	b.ResetTimer()
	for range rounds {
		sum.take(b, func() error { return exec.CommandContext(ctx, "sha256sum", path).Run() })
		hash.take(b, func() (err error) { sums, err = product.HashFile(ctx, path); return err })
		inspect.take(b, func() (err error) { facts, err = product.Inspect(ctx, path, product.Options{}); return err })
		restore.take(b, func() error { return plainRestore(ctx, bin, dir, path) })
		prepare.take(b, func() error { return prepared(ctx, bin, dir, product.File{Path: path, Sums: sums}, facts) })
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(sum.best.Seconds(), "sha256sum-s")
	b.ReportMetric(hash.best.Seconds(), "hash-s")
	b.ReportMetric(sum.best.Seconds()/hash.best.Seconds(), "hash-speed/sha256sum")
	b.ReportMetric(restore.best.Seconds(), "etcdutl-s")
	b.ReportMetric(prepare.best.Seconds(), "prepare-s")
	b.ReportMetric(prepare.best.Seconds()/restore.best.Seconds(), "prepare/etcdutl")
	b.ReportMetric(prepare.cpu.Seconds()/restore.cpu.Seconds(), "prepare/etcdutl-cpu")
	b.ReportMetric(sum.cpu.Seconds()/hash.cpu.Seconds(), "hash-speed/sha256sum-cpu")
	b.ReportMetric(inspect.best.Seconds(), "inspect-s")
	b.ReportMetric(inspect.cpu.Seconds(), "inspect-cpu-s")
	b.ReportMetric(float64(max(hash.kib, inspect.kib, prepare.kib))/1024, "anon-MiB")
}

func plainRestore(ctx context.Context, bin, dir, path string) error {
	data := filepath.Join(dir, "plain")
	defer func() { _ = os.RemoveAll(data) }()
	return exec.CommandContext(ctx, filepath.Join(bin, "etcdutl-3.6.16"), "snapshot", "restore", path, "--data-dir", data).Run()
}

func prepared(ctx context.Context, bin, dir string, f product.File, facts product.Facts) error {
	scratch, err := product.NewScratch(filepath.Join(dir, "scratch"), 0, 1)
	if err != nil {
		return err
	}
	w, err := scratch.Open(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	_, err = product.Prepare(ctx, f, facts, product.PrepareOptions{Workspace: w, Tools: product.Tools{Dir: bin}, Bump: 1_000_000})
	return err
}
