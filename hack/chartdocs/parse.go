package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is an annotated values.yaml.
type document struct {
	accepted []accepted
	params   []*param
	checked  bool
}

// accepted is a key that users may set although the chart has no parameter of that name.
type accepted struct{ name, description string }

// param is one key with what its comment says.
type param struct {
	name, path, section   string
	description, typeName string
	keywords              map[string]any // from @schema
	required, optional    bool
	value                 *yaml.Node
	children              []*param // of a mapping with keys of its own
}

func parse(source []byte) (*document, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, err
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("not a mapping")
	}
	doc := &document{checked: bytes.Contains(source, []byte("\n# @checked\n"))}
	for _, line := range strings.Split(string(source), "\n") {
		if rest, ok := strings.CutPrefix(line, "# @accept "); ok {
			name, text, _ := strings.Cut(rest, " ")
			doc.accepted = append(doc.accepted, accepted{name, text})
		}
	}
	var err error
	doc.params, err = parseMapping(root.Content[0], "")
	return doc, err
}

func parseMapping(node *yaml.Node, parent string) ([]*param, error) {
	var params []*param
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		p := &param{name: key.Value, path: parent + key.Value, value: value, keywords: map[string]any{}}
		if err := p.annotate(key.HeadComment); err != nil {
			return nil, fmt.Errorf("line %d, %s: %w", key.Line, p.path, err)
		}
		if p.description == "" {
			return nil, fmt.Errorf("line %d, %s: has no comment", key.Line, p.path)
		}
		if p.typeName == "object" {
			children, err := parseMapping(value, p.path+".")
			if err != nil {
				return nil, err
			}
			p.children = children
		}
		params = append(params, p)
	}
	return params, nil
}

// annotate reads a key's comment. Above the first key stand the file's own comments too: only the last paragraph and @section belong to the key.
func (p *param) annotate(comment string) error {
	for _, line := range strings.Split(comment, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "":
			p.description = ""
		case "@section":
			p.section = rest
		case "@type":
			p.typeName = rest
		case "@required":
			p.required = true
		case "@optional":
			p.optional = true
		case "@accept", "@checked":
		case "@schema":
			if err := json.Unmarshal([]byte(rest), &p.keywords); err != nil {
				return fmt.Errorf("@schema: %w", err)
			}
		default:
			if strings.HasPrefix(word, "@") {
				return fmt.Errorf("unknown annotation %s", word)
			}
			p.description = strings.TrimSpace(p.description + " " + line)
		}
	}
	if p.typeName == "" {
		p.typeName = typeOf(p.value)
	}
	if _, known := types[p.typeName]; !known {
		return fmt.Errorf("unknown type %q", p.typeName)
	}
	return nil
}

func typeOf(value *yaml.Node) string {
	switch {
	case value.Kind == yaml.MappingNode:
		return "object"
	case value.Kind == yaml.SequenceNode:
		return "list"
	case value.Tag == "!!int":
		return "integer"
	case value.Tag == "!!bool":
		return "boolean"
	default:
		return "string"
	}
}
