package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/config/crd"
)

// full gives an object of each kind of upstream's, with every field.
func full(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/full.yaml")
	must(t, err)
	var objects []*unstructured.Unstructured
	for one := range strings.SplitSeq(string(text), "\n---\n") {
		objects = append(objects, object(t, one))
	}
	return objects
}

// recorded gives objects as openstack-operator left them.
func recorded(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return []*unstructured.Unstructured{file(t, "nodeset.json"), file(t, "deployment.json"), file(t, "service.json")}
}

// Our definitions keep every field of upstream's objects and add none to what openstack-operator left.
func TestObjectsAreKeptWhole(t *testing.T) {
	c := newCluster(t)
	for _, o := range append(recorded(t), full(t)...) {
		if diff := cmp.Diff(content(o), content(c.create(t, o))); diff != "" {
			t.Errorf("%s %s is stored otherwise than sent (-sent +stored):\n%s", o.GetKind(), o.GetName(), diff)
		}
	}
}

// A field that nobody has thought of yet survives at every place, also when our types read and patch the object.
func TestUnknownFieldsSurvive(t *testing.T) {
	c := newCluster(t)
	for _, o := range full(t) {
		o = o.DeepCopy()
		places := addUnknown(schemaOf(t, o.GetKind()), o.Object, "")
		if len(places) < 4 {
			t.Fatalf("%s: unknown fields were only put at %v", o.GetKind(), places)
		}
		before := content(c.create(t, o))
		if lost := missing(content(o), before); len(lost) > 0 {
			t.Errorf("%s: lost when stored: %v", o.GetKind(), lost)
		}
		patchTyped(t, c, o)
		after := c.get(t, c.in(o))
		if len(after.GetFinalizers()) != 1 || after.GetAnnotations()["ours"] != "yes" {
			t.Errorf("%s: the patch did not arrive", o.GetKind())
		}
		if diff := cmp.Diff(before, content(after)); diff != "" {
			t.Errorf("%s: our patch changed what is not ours (-before +after):\n%s", o.GetKind(), diff)
		}
	}
}

// patchTyped reads the object in our type and patches one field of its own, as the operator does.
func patchTyped(t *testing.T, c cluster, o *unstructured.Unstructured) {
	t.Helper()
	typed, err := c.Scheme().New(o.GroupVersionKind())
	must(t, err)
	ours := typed.(client.Object)
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(c.in(o)), ours))
	was := ours.DeepCopyObject().(client.Object)
	ours.SetFinalizers([]string{"rotation.openstack.org/test"})
	ours.SetAnnotations(map[string]string{"ours": "yes"})
	must(t, c.Patch(t.Context(), ours, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{})))
}

// What our types leave out of upstream's objects is just this.
func TestWhatOurTypesLeaveOut(t *testing.T) {
	want := map[string][]string{
		"OpenStackDataPlaneNodeSet": {
			".spec.baremetalSetTemplate", ".spec.nodeTemplate.extraMounts", ".spec.nodeTemplate.networkData",
			".spec.nodeTemplate.networks", ".spec.nodeTemplate.userData", ".spec.nodes.*.bmhLabelSelector",
			".spec.nodes.*.ctlplaneInterface", ".spec.nodes.*.networkData", ".spec.nodes.*.networks",
			".spec.nodes.*.userData", ".status.containerImages", ".status.ctlplaneSearchDomain",
			".status.deployedVersion", ".status.dnsClusterAddresses",
		},
		"OpenStackDataPlaneDeployment": {".status.containerImages", ".status.deployedVersion"},
		"OpenStackDataPlaneService": {
			".spec.containerImageFields", ".spec.openStackAnsibleEERunnerImage",
			".spec.tlsCerts.default.edpmRoleServiceName", ".spec.tlsCerts.default.keyUsages",
		},
	}
	c := newCluster(t)
	left := map[string][]string{}
	for _, o := range append(recorded(t), full(t)...) {
		ours, err := c.Scheme().New(o.GroupVersionKind())
		must(t, err)
		text, err := o.MarshalJSON()
		must(t, err)
		must(t, json.Unmarshal(text, ours))
		text, err = json.Marshal(ours)
		must(t, err)
		left[o.GetKind()] = append(left[o.GetKind()], missing(content(o), content(object(t, string(text))))...)
	}
	for kind := range left {
		slices.Sort(left[kind])
		left[kind] = slices.Compact(left[kind])
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// status.secretDeployment is ours alone: others' patches of the status do not touch it, nor ours theirs.
func TestSecretDeployment(t *testing.T) {
	c := newCluster(t)
	o := c.create(t, file(t, "nodeset.json"))
	upstreams := content(o)
	apply := func(text string) error {
		u := &unstructured.Unstructured{Object: fields(t, text)}
		u.SetName(o.GetName())
		u.SetNamespace(o.GetNamespace())
		u.SetGroupVersionKind(o.GroupVersionKind())
		return c.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("rotation-operator"), client.ForceOwnership)
	}
	want := &dataplanev1.SecretDeploymentStatus{ConfigMapName: "x", TotalNodes: 3, UpdatedNodes: 1, ObservedGeneration: 1,
		LastUpdateTime: metav1.NewTime(time.Date(2026, 2, 23, 12, 0, 0, 0, time.Local))}
	text, err := json.Marshal(want)
	must(t, err)
	half := string(text)
	must(t, apply(`status: {secretDeployment: `+half+`}`))

	foreign := `{"status":{"secretHashes":{"nova-cell1-compute-config":"n5q","site-banner-secret":null},"conditions":[],"configHash":"n7q"}}`
	must(t, c.patch(t, o, client.RawPatch(types.MergePatchType, []byte(foreign)), "status"))
	after := c.get(t, o)
	got := typed[dataplanev1.OpenStackDataPlaneNodeSet](t, after).Status.SecretDeployment
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a foreign patch (-want +got):\n%s", diff)
	}
	status := after.Object["status"].(map[string]any)
	if _, shown := status["secretDeployment"].(map[string]any)["allNodesUpdated"]; !shown {
		t.Error("allNodesUpdated: false is not shown")
	}
	delete(status, "secretDeployment")
	theirs := merge(upstreams, map[string]any{"status": fields(t, foreign)["status"]})
	if diff := cmp.Diff(theirs, content(after)); diff != "" {
		t.Errorf("our apply changed what is not ours (-want +got):\n%s", diff)
	}

	for _, tt := range []struct{ patch, refused string }{
		{`updatedNodes: 4`, "updatedNodes cannot be more than totalNodes"},
		{`allNodesUpdated: true`, "allNodesUpdated needs nodes, and all of them updated"},
		{`{updatedNodes: 0, totalNodes: 0, allNodesUpdated: true}`, "allNodesUpdated needs nodes, and all of them updated"},
		{`{updatedNodes: 3, allNodesUpdated: true}`, ""},
		{`allNodesUpdated: null`, "Required value"},
		{`configMapName: ""`, "at least 1 chars"},
	} {
		text, err := json.Marshal(merge(fields(t, half), fields(t, tt.patch)))
		must(t, err)
		check(t, apply(`status: {secretDeployment: `+string(text)+`}`), tt.refused)
	}
}

// What upstream's definitions fill in, ours do too.
func TestDefaults(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct{ object, want string }{
		{nodeSet, `{services: [redhat, download-cache, bootstrap, configure-network, validate-network, install-os, configure-os, ssh-known-hosts,
			run-os, reboot-os, install-certs, ovn, neutron-metadata, libvirt, nova, telemetry], secretMaxSize: 1048576, tlsEnabled: true,
			nodeTemplate: {ansibleSSHPrivateKeySecret: key, managementNetwork: ctlplane}, nodes: {}}`},
		{deployment, `{nodeSets: [a, b], backoffLimit: 6, preserveJobs: true, deploymentRequeueTime: 15, ansibleEEEnvConfigMapName: openstack-aee-default-env}`},
		{service, `{playbook: p, caCerts: combined-ca-bundle}`},
	} {
		o := c.create(t, object(t, tt.object))
		if diff := cmp.Diff(object(t, "{apiVersion: v1, kind: x, spec: "+tt.want+"}").Object["spec"], o.Object["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o.GetKind(), diff)
		}
		ours, err := c.Scheme().New(o.GroupVersionKind())
		must(t, err)
		ours.(client.Object).SetName("typed")
		ours.(client.Object).SetNamespace(c.namespace)
		minimal(ours)
		must(t, c.Create(t.Context(), ours.(client.Object)))
		if diff := cmp.Diff(o.Object["spec"], c.get(t, ours.(client.Object)).Object["spec"]); diff != "" {
			t.Errorf("%s made from our type (-want +got):\n%s", o.GetKind(), diff)
		}
	}
}

// minimal fills in what the small objects of the tests have, no more.
func minimal(o any) {
	switch o := o.(type) {
	case *dataplanev1.OpenStackDataPlaneNodeSet:
		o.Spec.NodeTemplate.AnsibleSSHPrivateKeySecret = "key"
		o.Spec.Nodes = map[string]dataplanev1.NodeSection{}
	case *dataplanev1.OpenStackDataPlaneDeployment:
		o.Spec.NodeSets = []string{"a", "b"}
	case *dataplanev1.OpenStackDataPlaneService:
		o.Spec.Playbook = "p"
	}
}

// content is what an object has beside its metadata.
func content(o *unstructured.Unstructured) map[string]any {
	content := map[string]any{}
	for _, key := range []string{"spec", "status"} {
		if value, ok := o.DeepCopy().Object[key]; ok {
			content[key] = value
		}
	}
	return content
}

func (c cluster) in(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetNamespace(c.namespace)
	return o
}

var nodeKey = regexp.MustCompile(`^(\.spec\.nodes)\.[^.]+`)

// missing gives the paths of what is in the first value and not the same in the second. Zero values and what holds
// nothing but them are as good as absent.
func missing(a, b any) []string {
	var paths []string
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		if isZero(a) || reflect.DeepEqual(a, b) {
			return
		}
		below, isMap := a.(map[string]any)
		others, wasMap := b.(map[string]any)
		items, isList := a.([]any)
		otherItems, wasList := b.([]any)
		switch {
		case isMap && wasMap:
			for _, key := range slices.Sorted(maps.Keys(below)) {
				walk(path+"."+key, below[key], others[key])
			}
		case isList && wasList && len(items) == len(otherItems):
			for i := range items {
				walk(path+"[]", items[i], otherItems[i])
			}
		default:
			paths = append(paths, nodeKey.ReplaceAllString(path, "$1.*"))
		}
	}
	walk("", a, b)
	return paths
}

func isZero(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return !isZero(v) })
	case []any:
		return len(v) == 0
	}
	return v == nil || reflect.ValueOf(v).IsZero()
}

// schemaOf gives the schema of a kind in our definitions.
func schemaOf(t *testing.T, kind string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	definitions, err := crd.Definitions()
	must(t, err)
	for _, definition := range definitions {
		if definition.Spec.Names.Kind == kind {
			return *definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("no definition of %s", kind)
	return apiextensionsv1.JSONSchemaProps{}
}

// addUnknown puts a field that is in no schema into every object of the value that has fields of its own, and gives
// the places. Variables of containers are Kubernetes' own type, which upstream's definitions prune too.
func addUnknown(schema apiextensionsv1.JSONSchemaProps, value any, path string) []string {
	var places []string
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			of, known := schema.Properties[key]
			if !known && schema.AdditionalProperties != nil {
				of, known = *schema.AdditionalProperties.Schema, true
			}
			if known && path+"."+key != ".metadata" && path+"."+key != ".spec.env" {
				places = append(places, addUnknown(of, below, path+"."+key)...)
			}
		}
		if len(schema.Properties) > 0 && path != "" {
			value["zUnknown"] = map[string]any{"of": fmt.Sprint("field at ", path), "list": []any{map[string]any{"a": int64(1)}}}
			places = append(places, path)
		}
	case []any:
		for _, item := range value {
			places = append(places, addUnknown(*schema.Items.Schema, item, path+"[]")...)
		}
	}
	return places
}
