package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// types are the keywords of each type that a comment can name. Quantities arrive as numbers where YAML reads them so.
var types = map[string]map[string]any{
	"string":  {"type": []string{"string"}},
	"integer": {"type": []string{"integer"}},
	"boolean": {"type": []string{"boolean"}},
	"object":  {"type": []string{"object"}, "additionalProperties": false},
	"map":     {"type": []string{"object"}},
	"list":    {"type": []string{"array"}},
	"quantity": {"type": []string{"string", "number"}, "exclusiveMinimum": 0,
		"pattern": `^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$`},
	"duration": {"type": []string{"string"},
		"pattern": `^([0-9]{1,7}h([0-9]{1,7}m)?([0-9]{1,7}s)?|[0-9]{1,7}m([0-9]{1,7}s)?|[0-9]{1,7}s)$`},
}

func renderSchema(doc *document) ([]byte, error) {
	properties, required, err := renderProperties(doc.params, doc.checked)
	if err != nil {
		return nil, err
	}
	for _, a := range doc.accepted {
		properties[a.name] = map[string]any{"description": a.description}
	}
	schema := map[string]any{
		"$schema":              "http://json-schema.org/draft-07/schema#",
		"title":                "Values",
		"type":                 "object",
		"properties":           properties,
		"additionalProperties": false,
		"required":             required,
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(schema)
	return out.Bytes(), err
}

func renderProperties(params []*param, checked bool) (properties map[string]any, required []string, err error) {
	properties, required = map[string]any{}, []string{}
	for _, p := range params {
		property, err := p.property(checked)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.path, err)
		}
		properties[p.name] = property
		if p.required {
			required = append(required, p.name)
		}
	}
	return properties, required, nil
}

// property is the JSON schema of one parameter. Whatever is not required may be null, which is how Helm users take a default away.
func (p *param) property(checked bool) (map[string]any, error) {
	property := maps.Clone(types[p.typeName])
	property["description"] = p.description
	if !p.required {
		property["type"] = append(append([]string{}, property["type"].([]string)...), "null")
	}
	if checked {
		property["type"] = withAll(property["type"].([]string))
	}
	if names := property["type"].([]string); len(names) == 1 {
		property["type"] = names[0]
	}
	maps.Copy(property, p.keywords)
	if pattern, ok := property["pattern"].(string); ok && p.optional {
		property["pattern"] = "^$|" + pattern
	}
	if p.typeName == "object" {
		properties, required, err := renderProperties(p.children, checked)
		if err != nil {
			return nil, err
		}
		property["properties"], property["required"] = properties, required
		return property, nil
	}
	var value any
	if err := p.value.Decode(&value); err != nil {
		return nil, err
	}
	property["default"] = value
	return property, nil
}

// withAll adds the types that are not among the given ones, but for null. An integer is a number to JSON schema.
func withAll(names []string) []string {
	all := slices.Clone(names)
	for _, name := range []string{"string", "number", "boolean", "array", "object"} {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// defaultText is the default as a cell of the README table.
func (p *param) defaultText() string {
	var value any
	if err := p.value.Decode(&value); err != nil || p.typeName == "object" {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	if s, ok := value.(string); ok && s != "" {
		text = []byte(s)
	}
	return "`" + strings.ReplaceAll(string(text), "|", `\|`) + "`"
}
