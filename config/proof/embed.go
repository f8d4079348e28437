// Package proof holds the services that prove what nodes run.
package proof

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"sigs.k8s.io/yaml"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// FS has one YAML file for each service.
//
//go:embed *.yaml
var FS embed.FS

// Services parses all files of FS, in the order of their names.
func Services() ([]dataplanev1.OpenStackDataPlaneService, error) {
	names, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	services := make([]dataplanev1.OpenStackDataPlaneService, len(names))
	for i, name := range names {
		text, err := FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict(text, &services[i]); err != nil {
			return nil, fmt.Errorf("cannot parse %s: %w", name, err)
		}
	}
	return services, nil
}

// Proves tells which edpmServiceType a playbook proves, word for word; empty where it is none of ours.
func Proves(playbook string) string {
	return known[strings.TrimSpace(playbook)]
}

// known has the playbooks that ship, each with what it proves.
var known = func() map[string]string {
	services, err := Services()
	if err != nil {
		panic(err) // a file that ships is broken
	}
	playbooks := map[string]string{}
	for _, service := range services {
		playbooks[strings.TrimSpace(service.Spec.PlaybookContents)] = service.Spec.EDPMServiceType
	}
	return playbooks
}()
