package identity

import (
	"fmt"
	"strings"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// OfObject gives the identity that a guarded object shows: the first of the guard's identityPaths that is there and
// not empty. The error says where it was looked for.
func OfObject(kind rotationv1.CredentialKind, object map[string]any) (string, error) {
	for _, path := range kind.IdentityPaths {
		identity := at(object, strings.Split(strings.TrimPrefix(path, "."), "."))
		if identity == "" {
			continue
		}
		if problem := unfit(identity); problem != "" {
			return "", fmt.Errorf("%s: %s", path, problem)
		}
		return identity, nil
	}
	return "", fmt.Errorf("it shows no identity at %s", strings.Join(kind.IdentityPaths, " or "))
}

// at gives the text at a path of fields, empty where there is none.
func at(object map[string]any, path []string) string {
	var value any = object
	for _, field := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		value = fields[field]
	}
	text, _ := value.(string)
	return text
}
