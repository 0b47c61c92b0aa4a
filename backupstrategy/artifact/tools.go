package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const (
	toolPrefix = "etcdutl-"
	// childMemory is the heap that the child's runtime tries to stay below.
	childMemory = "160MiB"
	childGrace  = 5 * time.Second
	outputLimit = 2048
)

// firstBump is the oldest release of each minor whose etcdutl can bump revisions. Later minors all can.
var firstBump = map[string]int{"3.4": 1 << 30, "3.5": 10}

// Tools is a folder with etcdutl binaries named etcdutl-<version>, one or more for each minor that can be restored.
type Tools struct{ Dir string }

// Etcdutl is the newest binary of a minor such as "3.6".
func (t Tools) Etcdutl(minor string) (string, error) {
	names, err := filepath.Glob(filepath.Join(t.Dir, toolPrefix+"*"))
	if err != nil {
		return "", err
	}
	best, bestPatch, have := "", -1, []string{}
	for _, name := range names {
		version := strings.TrimPrefix(filepath.Base(name), toolPrefix)
		patch, ok := patchOf(version)
		if info, err := os.Stat(name); !ok || err != nil || info.Mode()&0o111 == 0 {
			continue
		}
		have = append(have, version)
		if minorOf(version) == minor && patch >= firstBump[minor] && patch > bestPatch {
			best, bestPatch = name, patch
		}
	}
	if best == "" {
		sort.Strings(have)
		return "", fault.Terminalf(backupsv1alpha1.ReasonToolMissing, "no etcdutl of etcd %q that can bump revisions is in %s; there are: %s", minor, t.Dir, strings.Join(have, ", "))
	}
	return best, nil
}

// patchOf reads Z of X.Y.Z.
func patchOf(version string) (int, bool) {
	parts := strings.Split(version, ".")
	if len(parts) != 3 || minorOf(version) == "" {
		return 0, false
	}
	patch, err := strconv.Atoi(parts[2])
	return patch, err == nil
}

// run executes a tool in a folder. The child dies with this process and with ctx; of its output the error keeps the end.
func run(ctx context.Context, dir, path string, args ...string) error {
	// The kernel ties Pdeathsig to the thread that forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := &tailBuffer{}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, out, out, childGrace
	cmd.Env = []string{"HOME=" + dir, "PATH=", "GOMEMLIMIT=" + childMemory, "GOGC=50"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", filepath.Base(path), ctx.Err())
	case errors.As(err, &exit):
		return fault.Terminalf(backupsv1alpha1.ReasonPrepareFailed, "%s %s: %s: %s", filepath.Base(path), args[0], exit, out)
	}
	return fault.Terminalf(backupsv1alpha1.ReasonPrepareFailed, "%s cannot be run: %w", filepath.Base(path), err)
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct{ data []byte }

// Write implements io.Writer.
func (t *tailBuffer) Write(b []byte) (int, error) {
	t.data = append(t.data, b...)
	if extra := len(t.data) - outputLimit; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(b), nil
}

// String is the end of the output in one line of valid text.
func (t *tailBuffer) String() string {
	return strings.ToValidUTF8(string(bytes.ReplaceAll(bytes.TrimSpace(t.data), []byte("\n"), []byte(" | "))), "")
}
