// Package docs holds the manual. Its tests compare the runbook with the code.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const apiDir = "../controller/api/backups/v1alpha1"

func TestEveryReasonAndConditionIsInTheRunbook(t *testing.T) {
	page := tables(t)
	for prefix, header := range map[string]string{"Reason": "Reason", "Condition": "Condition"} {
		named := page[header]
		for name, value := range constants(t, prefix, apiDir) {
			require.Contains(t, named, value, "docs/operations.md: no table under %q has a row for %s", header, name)
		}
		known := constants(t, prefix, apiDir, "../controller/internal")
		require.Greater(t, len(known), 5)
		values := slices.Collect(maps.Values(known))
		for _, value := range named {
			require.Contains(t, values, value, "docs/operations.md names a %s that no constant has", header)
		}
	}
}

func TestEveryFlagAndMetricIsInTheRunbook(t *testing.T) {
	page := tables(t)
	var flags []string
	for _, name := range sourceStrings(t, "../controller/cmd/etcd-controller/options.go", `fs\.\w*(?:Var\(&[\w.]+, |Func\()"([^"]+)"`) {
		flags = append(flags, "--"+name)
	}
	require.ElementsMatch(t, append(flags, "--kubeconfig"), page["Flag"])
	var metrics []string
	for _, name := range sourceStrings(t, "../controller/internal/metrics/metrics.go", `Namespace: namespace, Name: "([^"]+)"`) {
		metrics = append(metrics, "cozy_etcd_"+name)
	}
	require.ElementsMatch(t, metrics, page["Metric"])
}

// A link to a place that is not there helps nobody at night.
func TestLinksOfTheRunbookLeadSomewhere(t *testing.T) {
	page := read(t, "operations.md")
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchors := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(h[1]), "")
		anchors[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(page, -1) {
		if anchor, here := strings.CutPrefix(link[1], "#"); here {
			require.True(t, anchors[anchor], "no heading for %s", link[1])
			continue
		}
		require.FileExists(t, link[1])
	}
}

// tables gives what stands in code marks in the first column of the page's tables, by the title of that column.
func tables(t *testing.T) map[string][]string {
	t.Helper()
	code := regexp.MustCompile("`([^`]+)`")
	found := map[string][]string{}
	title := ""
	for line := range strings.SplitSeq(read(t, "operations.md"), "\n") {
		if !strings.HasPrefix(line, "|") {
			title = ""
			continue
		}
		first := strings.TrimSpace(strings.Split(line, "|")[1])
		if title == "" {
			title = first
			continue
		}
		for _, m := range code.FindAllStringSubmatch(first, -1) {
			found[title] = append(found[title], m[1])
		}
	}
	return found
}

// constants reads the exported string constants with a prefix below the directories, as name and value.
func constants(t *testing.T, prefix string, dirs ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok {
					return true
				}
				for i, name := range spec.Names {
					if value, ok := stringOf(spec, i); ok && strings.HasPrefix(name.Name, prefix) {
						found[name.Name] = value
					}
				}
				return true
			})
			return nil
		}))
	}
	return found
}

func stringOf(spec *ast.ValueSpec, i int) (string, bool) {
	if i >= len(spec.Values) {
		return "", false
	}
	literal, ok := spec.Values[i].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

func sourceStrings(t *testing.T, path, pattern string) []string {
	t.Helper()
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, path), -1) {
		found = append(found, m[1])
	}
	require.NotEmpty(t, found, "%s: nothing fits %s", path, pattern)
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

// The map of the code names every package of the controller.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	var named []string
	for _, line := range strings.Split(read(t, "../controller/ARCHITECTURE.md"), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 {
			named = append(named, fields[0])
		}
	}
	for _, parent := range []string{"controller/cmd", "controller/internal"} {
		packages, err := os.ReadDir("../" + parent)
		require.NoError(t, err)
		require.NotEmpty(t, packages)
		for _, p := range packages {
			require.True(t, slices.Contains(named, parent+"/"+p.Name()), "the map leaves out %s", p.Name())
		}
	}
}
