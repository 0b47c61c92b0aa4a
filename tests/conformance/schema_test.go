package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// crds reads the CRDs of folders by name.
func crds(t *testing.T, dirs ...string) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, dir := range dirs {
		for _, file := range yamlFiles(t, dir) {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			crd := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, sigsyaml.Unmarshal(content, crd), filepath.Base(file))
			all[crd.Name] = crd
		}
	}
	return all
}

// flatten lists a schema by path, without its prose. Of rules only the number counts: ours are written anew, and the
// edits show that they mean the same.
func flatten(path string, s *apiextensionsv1.JSONSchemaProps, into map[string]apiextensionsv1.JSONSchemaProps) {
	one := *s.DeepCopy()
	one.Description, one.Properties, one.Items, one.AdditionalProperties = "", nil, nil, nil
	if n := len(one.XValidations); n > 0 {
		one.XValidations = make(apiextensionsv1.ValidationRules, n)
	}
	slices.Sort(one.Required)
	into[path] = one
	for name := range s.Properties {
		child := s.Properties[name]
		flatten(path+"."+name, &child, into)
	}
	if s.Items != nil && s.Items.Schema != nil {
		flatten(path+"[]", s.Items.Schema, into)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		flatten(path+"{}", s.AdditionalProperties.Schema, into)
	}
}

// fewerRules are paths where one of the platform's rules says what another one says already.
var fewerRules = map[string]string{"datastores.kamaji.clastix.io": ".spec"}

func TestSchemasAgree(t *testing.T) {
	theirs, ours := crds(t, upstreamCRDs(t)), crds(t, ourCRDs()...)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		t.Run(name, func(t *testing.T) {
			want, got := theirs[name], ours[name]
			require.NotNil(t, want, "the platform has no such kind")
			require.Equal(t, want.Spec.Scope, got.Spec.Scope)
			require.Equal(t, want.Spec.Group, got.Spec.Group)
			require.Equal(t, want.Spec.Names.Plural, got.Spec.Names.Plural)
			require.Len(t, got.Spec.Versions, 1)
			w, g := want.Spec.Versions[0], got.Spec.Versions[0]
			require.Equal(t, w.Name, g.Name)
			require.Equal(t, w.SelectableFields, g.SelectableFields)
			sameSubresources(t, w.Subresources, g.Subresources, partial(got.Spec.Names.Kind))
			hasColumns(t, w.AdditionalPrinterColumns, g.AdditionalPrinterColumns, partial(got.Spec.Names.Kind))
			sameSchema(t, name, &w, &g, partial(got.Spec.Names.Kind))
		})
	}
}

func sameSubresources(t *testing.T, want, got *apiextensionsv1.CustomResourceSubresources, partial bool) {
	t.Helper()
	if want == nil {
		want = &apiextensionsv1.CustomResourceSubresources{}
	}
	if got == nil {
		got = &apiextensionsv1.CustomResourceSubresources{}
	}
	require.Equal(t, want.Status, got.Status)
	if !partial {
		require.Equal(t, want.Scale, got.Scale)
	}
}

// hasColumns wants each of the platform's columns; ours may have more.
func hasColumns(t *testing.T, want, got []apiextensionsv1.CustomResourceColumnDefinition, partial bool) {
	t.Helper()
	for _, w := range want {
		found := slices.ContainsFunc(got, func(g apiextensionsv1.CustomResourceColumnDefinition) bool {
			return g.Name == w.Name && g.JSONPath == w.JSONPath && g.Type == w.Type
		})
		require.True(t, found || partial, "column %s", w.Name)
	}
}

func sameSchema(t *testing.T, name string, want, got *apiextensionsv1.CustomResourceDefinitionVersion, partial bool) {
	t.Helper()
	w, g := map[string]apiextensionsv1.JSONSchemaProps{}, map[string]apiextensionsv1.JSONSchemaProps{}
	flatten("", want.Schema.OpenAPIV3Schema, w)
	flatten("", got.Schema.OpenAPIV3Schema, g)
	for path := range g {
		require.Contains(t, w, path, "a field that the platform does not have")
	}
	if partial {
		return
	}
	for path, field := range w {
		require.Contains(t, g, path, "a field of the platform is missing")
		mine := g[path]
		if fewerRules[name] == path {
			field.XValidations, mine.XValidations = nil, nil
		}
		require.Equal(t, field, mine, path)
	}
}
