// Package guards holds the CredentialGuards that ship with the project.
package guards

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// FS has one YAML file for each guard, <name>.yaml.
//
//go:embed *.yaml
var FS embed.FS

// Names are those of the guards, sorted.
func Names() []string {
	files, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(file, ".yaml")
	}
	slices.Sort(files)
	return files
}

// Named parses the guard of that name.
func Named(name string) (*rotationv1.CredentialGuard, error) {
	text, err := FS.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no guard %q ships with the project, only %s", name, strings.Join(Names(), ", "))
	}
	guard := &rotationv1.CredentialGuard{}
	if err := yaml.UnmarshalStrict(text, guard); err != nil {
		return nil, fmt.Errorf("guard %s: %w", name, err)
	}
	return guard, nil
}
