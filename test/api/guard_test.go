package api

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The guards that ship are valid and mean the same once they are stored.
func TestShippedGuardsAreStored(t *testing.T) {
	c := newCluster(t)
	files, err := filepath.Glob("../../config/guards/*.yaml")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no guards ship")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		guard := object(t, string(text))
		guard.SetNamespace(c.namespace)
		must(t, c.Create(t.Context(), guard))
		if strength, _, _ := unstructured.NestedString(guard.Object, "spec", "strength"); strength != "Delivered" {
			t.Errorf("%s: strength is %q by default", file, strength)
		}
	}
}

// What an administrator can get wrong and the schema can tell is refused, in words that say what is wrong.
func TestBadGuardsAreRefused(t *testing.T) {
	c := newCluster(t)
	const good = `[{secretNames: [a], keys: [b], regexp: "(?P<identity>c)"}]`
	for _, tt := range []struct{ sources, more, want string }{
		{good, "", ""},
		{`[]`, "", "should have at least 1 items"},
		{`[{secretNames: [a], keys: [b]}]`, "", "exactly one of regexp, urlUser, ini and jsonPath is needed"},
		{`[{secretNames: [a], keys: [b], regexp: "(?P<identity>c)", jsonPath: "{.a}"}]`, "", "exactly one of regexp, urlUser, ini and jsonPath is needed"},
		{`[{secretNames: [a], keys: [b], regexp: "(?P<user>c)"}]`, "", "regexp needs the group"},
		{`[{secretNames: [a], keys: [b], regexp: "(?P<identity>c)(?P<password>d)"}]`, "", "must not capture a password"},
		{`[{secretNames: [a], keys: [b], ini: {section: s, key: application_credential_secret}}]`, "", "by its name a secret"},
		{`[{secretNames: [], keys: [b], regexp: "(?P<identity>c)"}]`, "", "should have at least 1 items"},
		{`[{secretNames: [a], keys: [""], regexp: "(?P<identity>c)"}]`, "", "at least 1 chars long"},
		{`[{secretNames: [a], keys: [b], urlUser: {schemes: ["rabbit://"]}}]`, "", "should match"},
		{`[{secretNames: [a], keys: [b], ini: {section: s, key: k, regexp: "(?P<identity>c)", urlUser: {schemes: [a]}}}]`, "", "at most one of regexp and urlUser"},
		{`[{secretNames: [a], keys: [b], ini: {section: s, key: k, regexp: "c"}}]`, "", "regexp needs the group"},
		{`[{secretNames: [a], keys: [b], presence: Maybe, jsonPath: "{.a}"}]`, "", "Unsupported value"},
		{good, "strength: Hoped", "Unsupported value"},
	} {
		guard := object(t, fmt.Sprintf(`
apiVersion: rotation.openstack.org/v1alpha1
kind: CredentialGuard
metadata: {generateName: guard-}
spec:
  credential: {apiVersion: v1, kind: Secret, resource: secrets, identityPaths: [.metadata.name]}
  sources: %s
  %s
`, tt.sources, tt.more))
		guard.SetNamespace(c.namespace)
		check(t, c.Create(t.Context(), guard), tt.want)
	}
}
