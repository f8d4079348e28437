package api

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/rotation-operator/rotation-operator/config/crd"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
)

// Every definition is established under all its names, and the server finds nothing to object to in its schema.
func TestDefinitionsAreServed(t *testing.T) {
	c := newCluster(t)
	definitions, err := crd.Definitions()
	must(t, err)
	want := map[string]string{
		"openstackdataplanenodesets":    "osdpns osdpnodeset osdpnodesets",
		"openstackdataplanedeployments": "osdpd osdpdeployment osdpdeployments",
		"openstackdataplaneservices":    "osdps osdpservice osdpservices",
		"secretrollouts":                "sro",
		"credentialguards":              "cguard",
		"credentialholds":               "chold",
		"credentialoverrides":           "coverride",
		"nodeattestations":              "nattest",
	}
	if len(definitions) != len(want) {
		t.Fatalf("there are %d definitions, want %d", len(definitions), len(want))
	}
	for _, definition := range definitions {
		found := &apiextensionsv1.CustomResourceDefinition{}
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(definition), found))
		names := found.Status.AcceptedNames
		if got := strings.Join(names.ShortNames, " "); got != want[names.Plural] {
			t.Errorf("%s: short names %q, want %q", names.Plural, got, want[names.Plural])
		}
		for _, condition := range found.Status.Conditions {
			isGood := condition.Type == apiextensionsv1.Established || condition.Type == apiextensionsv1.NamesAccepted
			if isGood != (condition.Status == apiextensionsv1.ConditionTrue) {
				t.Errorf("%s: %s=%s: %s", names.Plural, condition.Type, condition.Status, condition.Message)
			}
		}
	}
}

// kubectl get shows what upstream's definitions show, but finds the condition by type wherever it stands in the list.
func TestColumns(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct{ object, want string }{
		{nodeSet + "status: {conditions: [" + inputReady + "," + ready + "]}", "Name=x Status=False Message=in progress"},
		{deployment + "status: {conditions: [" + inputReady + "," + ready + "]}", "Name=x NodeSets=[\"a\",\"b\"] Status=False Message=in progress"},
		{service, "Name=x Age=<t>"},
		{rollout, "Name=x Nodes=3 Ready=False Updated=1 Degraded=2 Settled=True Reason=NodesBehind Age=<t> Message=2 of 3"},
		{`{apiVersion: rotation.openstack.org/v1alpha1, kind: SecretRollout, metadata: {name: empty}}`,
			"Name=empty Nodes=<nil> Ready=<nil> Updated=<nil> Degraded=<nil> Settled=<nil> Reason=<nil> Age=<t> Message=<nil>"},
	} {
		if got := c.row(t, c.create(t, object(t, tt.object))); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// row asks the server for the object as a table, as kubectl get does.
func (c cluster) row(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	gvk := o.GroupVersionKind()
	config := testplane.Plane(t).Admin()
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	rc, err := apiutil.RESTClientForGVK(gvk, false, true, config, scheme.Codecs, httpClient)
	must(t, err)
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	must(t, err)
	table := &metav1.Table{}
	must(t, rc.Get().Namespace(c.namespace).Resource(mapping.Resource.Resource).Name(o.GetName()).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table))
	cells := make([]string, len(table.ColumnDefinitions))
	for i, column := range table.ColumnDefinitions {
		value := table.Rows[0].Cells[i]
		if column.Name == "Age" && value != nil {
			value = "<t>"
		}
		cells[i] = fmt.Sprintf("%s=%v", column.Name, value)
	}
	return strings.Join(cells, " ")
}
