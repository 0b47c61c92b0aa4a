// Command etcd-artifact proves a snapshot file as a restore does and prints what is in it. It needs no cluster.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
)

const usage = `usage: etcd-artifact inspect [--checksum sha256:HEX] [--bare] [--spill DIR] FILE

Checks size, sha256 and etcd's own sha256 of a snapshot, reads every page and every
entry of its database, and prints versions, revisions, live keys by prefix, auth state,
alarms and members as JSON. Ends with 1 and a message that names the byte where the file
is damaged.
`

var errUsage = errors.New(strings.TrimSpace(usage))

// result is what is printed.
type result struct {
	SizeBytes int64  `json:"sizeBytes"`
	Checksum  string `json:"checksum"`
	// Trailed tells that etcd's own sha256 stands at the end and is right.
	Trailed bool `json:"trailed"`
	artifact.Facts
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcd-artifact:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("etcd-artifact", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	checksum := flags.String("checksum", "", "")
	bare := flags.Bool("bare", false, "")
	spill := flags.String("spill", os.TempDir(), "")
	if len(args) == 0 || args[0] != "inspect" {
		return errUsage
	}
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() != 1 {
		return errUsage
	}
	sums, err := artifact.HashFile(ctx, flags.Arg(0))
	if err != nil {
		return err
	}
	if err := sums.Check(artifact.Record{Checksum: *checksum, AllowBare: *bare}); err != nil {
		return err
	}
	facts, err := artifact.File{Path: flags.Arg(0), Sums: sums}.Inspect(ctx, artifact.Options{SpillDir: *spill})
	if err != nil {
		return err
	}
	printer := json.NewEncoder(out)
	printer.SetIndent("", "  ")
	return printer.Encode(result{SizeBytes: sums.Size, Checksum: sums.Checksum(), Trailed: sums.Trailed(), Facts: facts})
}
