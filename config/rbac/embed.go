// Package rbac holds the rights of the operator and of people, so that tests and the lab run with exactly these.
package rbac

import (
	_ "embed"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

//go:embed role.yaml
var role []byte

//go:embed people.yaml
var people string

// Role is what the operator may do in a namespace that it looks at.
func Role() (*rbacv1.Role, error) {
	var parsed rbacv1.Role
	if err := yaml.UnmarshalStrict(role, &parsed); err != nil {
		return nil, fmt.Errorf("config/rbac/role.yaml: %w", err)
	}
	return &parsed, nil
}

// People are the roles for people: rotation-view, rotation-credential-override and rotation-node-attest.
func People() ([]*rbacv1.ClusterRole, error) {
	var roles []*rbacv1.ClusterRole
	for text := range strings.SplitSeq(people, "\n---\n") {
		parsed := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict([]byte(text), parsed); err != nil {
			return nil, fmt.Errorf("config/rbac/people.yaml: %w", err)
		}
		roles = append(roles, parsed)
	}
	return roles, nil
}
