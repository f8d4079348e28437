// Package rbac holds the rights of the operator, so that tests and the lab run it with exactly these.
package rbac

import (
	_ "embed"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

//go:embed role.yaml
var role []byte

// Role is what the operator may do in a namespace that it looks at.
func Role() (*rbacv1.Role, error) {
	var parsed rbacv1.Role
	if err := yaml.UnmarshalStrict(role, &parsed); err != nil {
		return nil, fmt.Errorf("config/rbac/role.yaml: %w", err)
	}
	return &parsed, nil
}
