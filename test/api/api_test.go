// Package api holds the tests of the CustomResourceDefinitions against a real API server.
package api

import (
	"encoding/json"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// cluster is an API server with our definitions and a namespace for the test alone.
type cluster struct {
	client.Client
	namespace string
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	c := testplane.Client(t)
	must(t, apiextensionsv1.AddToScheme(c.Scheme()))
	return cluster{Client: c, namespace: testplane.Namespace(t)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// object reads a YAML text.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	must(t, err)
	u := &unstructured.Unstructured{}
	must(t, u.UnmarshalJSON(asJSON))
	return u
}

// file reads an object of testdata.
func file(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	must(t, err)
	return object(t, string(text))
}

// create stores the object, its status included, in the test's namespace, and gives what the server made of it.
func (c cluster) create(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	stored := o.DeepCopy()
	stored.SetNamespace(c.namespace)
	must(t, c.Create(t.Context(), stored))
	if status, ok := o.Object["status"]; ok {
		stored.Object["status"] = runtime.DeepCopyJSONValue(status)
		must(t, c.Status().Update(t.Context(), stored))
	}
	return c.get(t, stored)
}

// get reads the object again, in no type of ours.
func (c cluster) get(t *testing.T, o client.Object) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	gvk, err := c.GroupVersionKindFor(o)
	must(t, err)
	found.SetGroupVersionKind(gvk)
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), found))
	return found
}

// patch sends a patch of the kind to the object or one of its subresources.
func (c cluster) patch(t *testing.T, o client.Object, kind client.Patch, subresource string) error {
	t.Helper()
	sent := &unstructured.Unstructured{}
	gvk, err := c.GroupVersionKindFor(o)
	must(t, err)
	sent.SetGroupVersionKind(gvk)
	sent.SetName(o.GetName())
	sent.SetNamespace(c.namespace)
	if subresource == "" {
		return c.Patch(t.Context(), sent, kind)
	}
	return c.SubResource(subresource).Patch(t.Context(), sent, kind)
}

// typed decodes an object into one of our types.
func typed[T any](t *testing.T, u *unstructured.Unstructured) T {
	t.Helper()
	text, err := json.Marshal(u.Object)
	must(t, err)
	var into T
	must(t, json.Unmarshal(text, &into))
	return into
}

// merge applies a JSON merge patch.
func merge(into, patch map[string]any) map[string]any {
	for key, value := range patch {
		below, isMap := value.(map[string]any)
		was, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			into[key] = merge(was, below)
		default:
			into[key] = value
		}
	}
	return into
}

func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	var into map[string]any
	must(t, yaml.Unmarshal([]byte(text), &into))
	return into
}
