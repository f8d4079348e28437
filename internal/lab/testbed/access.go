package testbed

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rotation-operator/rotation-operator/config/rbac"
)

// admitOperator lets a user into the namespace who has exactly the operator's rights.
func (b *Testbed) admitOperator(ctx context.Context) (user string, err error) {
	role, err := rbac.Role()
	if err != nil {
		return "", err
	}
	role.Namespace = b.namespace
	user = "system:serviceaccount:" + b.namespace + ":" + role.Name
	binding := &rbacv1.RoleBinding{
		ObjectMeta: b.meta(role.Name),
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	if err := b.create(ctx, role); err != nil {
		return "", fmt.Errorf("rights of the operator: %w", err)
	}
	if err := b.create(ctx, binding); err != nil {
		return "", fmt.Errorf("rights of the operator: %w", err)
	}
	return user, nil
}
