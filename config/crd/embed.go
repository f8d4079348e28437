// Package crd holds the CustomResourceDefinitions, so that tests, the lab and installers use the same bytes.
package crd

import "embed"

// FS has one YAML file for each CustomResourceDefinition, named <group>_<plural>.yaml.
//
//go:embed *.yaml
var FS embed.FS
