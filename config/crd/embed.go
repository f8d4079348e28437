// Package crd holds the CustomResourceDefinitions, so that tests, the lab and installers use the same bytes.
package crd

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// FS has one YAML file for each CustomResourceDefinition, named <group>_<plural>.yaml.
//
//go:embed *.yaml
var FS embed.FS

// Definitions parses all files of FS, in order of their names.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, len(names))
	for i, name := range names {
		text, err := FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		definitions[i] = &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, definitions[i]); err != nil {
			return nil, fmt.Errorf("cannot parse %s: %w", name, err)
		}
	}
	return definitions, nil
}
