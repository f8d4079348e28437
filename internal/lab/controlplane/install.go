package controlplane

import (
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// InstallCRDs puts the CustomResourceDefinitions of the files in and waits until they are served.
func (c *ControlPlane) InstallCRDs(files fs.FS) error {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no CustomResourceDefinitions to install (%w)", err)
	}
	options := envtest.CRDInstallOptions{}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		options.CRDs = append(options.CRDs, crd)
	}
	if _, err := envtest.InstallCRDs(c.Admin(), options); err != nil {
		return fmt.Errorf("installing CustomResourceDefinitions: %w", err)
	}
	return nil
}
