package controlplane

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// InstallCRDs puts CustomResourceDefinitions in and waits until they are served.
func (c *ControlPlane) InstallCRDs(definitions []*apiextensionsv1.CustomResourceDefinition) error {
	if _, err := envtest.InstallCRDs(c.Admin(), envtest.CRDInstallOptions{CRDs: definitions}); err != nil {
		return fmt.Errorf("installing CustomResourceDefinitions: %w", err)
	}
	return nil
}
