package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

const (
	tableBegin = "<!-- values: generated from values.yaml -->\n"
	tableEnd   = "<!-- values: end -->\n"
)

func renderTable(doc *document) string {
	var out strings.Builder
	for _, p := range doc.params {
		if p.section != "" {
			fmt.Fprintf(&out, "\n### %s\n\n| Name | Description | Type | Default |\n|---|---|---|---|\n", p.section)
		}
		p.row(&out)
	}
	if len(doc.accepted) > 0 {
		out.WriteString("\n### Accepted besides\n\n| Name | Meaning |\n|---|---|\n")
		for _, a := range doc.accepted {
			fmt.Fprintf(&out, "| `%s` | %s |\n", a.name, cell(a.description))
		}
	}
	return strings.TrimPrefix(out.String(), "\n") + "\n"
}

func (p *param) row(out *strings.Builder) {
	fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", p.path, cell(p.description), p.typeName, p.defaultText())
	for _, child := range p.children {
		child.row(out)
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// insertTable replaces what stands between the two markers.
func insertTable(readme []byte, table string) ([]byte, error) {
	head, rest, _ := bytes.Cut(readme, []byte(tableBegin))
	_, tail, ok := bytes.Cut(rest, []byte(tableEnd))
	if !ok {
		return nil, errors.New("README.md: no line " + strings.TrimSpace(tableEnd))
	}
	return bytes.Join([][]byte{head, []byte(tableBegin + "\n" + table), append([]byte(tableEnd), tail...)}, nil), nil
}
