// Package policies holds the admission policies of the deletion gate.
package policies

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// FS has the policies, each followed by its binding.
//
//go:embed *.yaml
var FS embed.FS

// Objects parses all files of FS, in the order in which they are to be applied.
func Objects() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		text, err := FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("cannot parse %s: %w", name, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}
