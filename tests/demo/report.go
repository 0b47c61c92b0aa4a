package main

import (
	"fmt"
	"io"
	"time"
)

// report prints progress and, at the end, the time of each stage.
type report struct {
	out   io.Writer
	began time.Time
	rows  []row
}

type row struct {
	title  string
	took   time.Duration
	proofs int
}

func (r *report) stage(title string, do func() error) error {
	fmt.Fprintf(r.out, "\n▶ %s\n", title)
	r.rows = append(r.rows, row{title: title})
	start := time.Now()
	err := do()
	r.rows[len(r.rows)-1].took = time.Since(start)
	if err != nil {
		fmt.Fprintf(r.out, "  ✗ %v\n", err)
		return fmt.Errorf("%s: %w", title, err)
	}
	return nil
}

// note prints a fact.
func (r *report) note(format string, args ...any) {
	fmt.Fprintf(r.out, "    %5.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// proof prints a claim that was checked and held.
func (r *report) proof(format string, args ...any) {
	r.rows[len(r.rows)-1].proofs++
	fmt.Fprintf(r.out, "  ✓ %5.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

func (r *report) summary() {
	fmt.Fprintf(r.out, "\n%-58s %8s %8s\n", "stage", "seconds", "proofs")
	proofs := 0
	for _, row := range r.rows {
		fmt.Fprintf(r.out, "%-58s %8.1f %8d\n", row.title, row.took.Seconds(), row.proofs)
		proofs += row.proofs
	}
	fmt.Fprintf(r.out, "%-58s %8.1f %8d\n", "all", time.Since(r.began).Seconds(), proofs)
}
