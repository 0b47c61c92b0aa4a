// Command chartdocs writes a chart's values.schema.json and, between two marker lines, the parameter table of its README from the annotated comments of its values.yaml, so that
// the three cannot disagree.
//
//	chartdocs [-check] CHART...
//
// A comment above a key is its description. Lines that start with @ say more:
//
//	@section TITLE      starts a table in the README
//	@type NAME          string, integer, boolean, quantity, duration, list, map (free-form) or object; default: read from the value
//	@schema {JSON}      keywords merged into the generated property
//	@required           the key can neither be removed with null nor left out
//	@optional           the empty string stands for "not given" besides what the type allows
//	@accept KEY TEXT    at the head of the file: a key that is allowed without being a parameter
//	@checked            at the head of the file: a template of the chart checks every type and says what stands there, which a schema cannot; so the
//	                    schema names the type that is meant first, and lets the others through
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if a generated file is out of date")
	flag.Parse()
	for _, chart := range flag.Args() {
		if err := run(chart, *check); err != nil {
			fmt.Fprintln(os.Stderr, "chartdocs:", err)
			os.Exit(1)
		}
	}
}

func run(chart string, check bool) error {
	files, err := generate(chart)
	if err != nil {
		return fmt.Errorf("%s: %w", chart, err)
	}
	for path, content := range files {
		old, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if bytes.Equal(old, content) {
			continue
		}
		if check {
			return fmt.Errorf("%s is out of date; run chartdocs %s", path, chart)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate gives the files by path with the content that they ought to have.
func generate(chart string) (map[string][]byte, error) {
	source, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	doc, err := parse(source)
	if err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := renderSchema(doc)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{filepath.Join(chart, "values.schema.json"): schema}
	readmePath := filepath.Join(chart, "README.md")
	readme, err := os.ReadFile(readmePath)
	if err != nil || !bytes.Contains(readme, []byte(tableBegin)) {
		return files, nil //nolint:nilerr // a chart without a marked README has no table
	}
	files[readmePath], err = insertTable(readme, renderTable(doc))
	return files, err
}
