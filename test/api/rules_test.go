package api

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Small valid objects; what a test needs comes after.
const (
	nodeSet = `
apiVersion: dataplane.openstack.org/v1beta1
kind: OpenStackDataPlaneNodeSet
metadata: {name: x}
spec: {nodeTemplate: {ansibleSSHPrivateKeySecret: key}, nodes: {}}
`
	deployment = `
apiVersion: dataplane.openstack.org/v1beta1
kind: OpenStackDataPlaneDeployment
metadata: {name: x}
spec: {nodeSets: [a, b]}
`
	service = `
apiVersion: dataplane.openstack.org/v1beta1
kind: OpenStackDataPlaneService
metadata: {name: x}
spec: {playbook: p}
`
	inputReady = `{type: InputReady, status: "True", lastTransitionTime: "2026-02-23T12:00:00Z", reason: Ready}`
	ready      = `{type: Ready, status: "False", lastTransitionTime: "2026-02-23T12:00:00Z", reason: Requested, message: in progress}`
	user7      = "nf5h55h5d7h554hddh5d9h5ch587h678h8fh64h646h5bch689h545h56fh64ch5f7h5dbhb6h5d7hb6h55fh87h5dbh577h68fh5b5hb9h588h556h687q"
	user8      = "n596h667h8ch55h7fh5cfh5c8hdch5f7h58fh7fh669h59bh5c5h657h66dh655h585h668hcch594h5cbh54dh4hf9hd7h96h59dh56ch7ch556h658q"
	rollout    = `
apiVersion: rotation.openstack.org/v1alpha1
kind: SecretRollout
metadata: {name: x}
status:
  observedGeneration: 1
  nodeSetGeneration: 4
  configMapName: x-secret-tracking
  totalNodes: 3
  updatedNodes: 1
  degradedNodes: 2
  allNodesUpdated: false
  secrets:
  - name: nova-cell1-compute-config
    expectedHash: ` + user8 + `
    currentHash: ` + user7 + `
    totalNodes: 3
    updatedNodes: 1
    driftSince: "2026-02-23T12:00:00Z"
    versions: [{hash: ` + user8 + `, nodes: 3, identities: [user8]}, {hash: ` + user7 + `, nodes: 2, identities: [user7]}, {hash: "?", nodes: 1}, {hash: none, nodes: 1}]
  hostSecrets: {total: 3, updated: 2}
  unsettledDeployments: [first]
  conditions:
  - {type: Settled, status: "True", reason: DeploymentsSettled, message: "", lastTransitionTime: "2026-02-23T12:00:00Z"}
  - {type: Ready, status: "False", reason: NodesBehind, message: 2 of 3, lastTransitionTime: "2026-02-23T12:00:00Z"}
`
)

// Each patch of a valid object is taken or refused as upstream's webhooks and definitions, or our own rules, say.
func TestRules(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct{ name, base, patch, refused string }{
		{"no NodeSets", deployment, `{"spec":{"nodeSets":[]}}`, "should have at least 1 items"},
		{"NodeSets missing", deployment, `{"spec":{"nodeSets":null}}`, "Required value"},
		{"spec missing", deployment, `{"spec":null}`, "spec: Required value"},
		{"no time between looks", deployment, `{"spec":{"deploymentRequeueTime":0}}`, "greater than or equal to 1"},
		{"any time between looks", deployment, `{"spec":{"deploymentRequeueTime":1}}`, ""},
		{"overlong ConfigMap name", deployment, `{"spec":{"ansibleEEEnvConfigMapName":"` + strings.Repeat("x", 254) + `"}}`, "Too long"},
		{"variables that are no map", deployment, `{"spec":{"ansibleExtraVars":["a"]}}`, "must be of type object"},
		{"nothing to run", service, `{"spec":{"playbook":null}}`, "a Service needs a playbook, playbookContents or a role"},
		{"an empty playbook", service, `{"spec":{"playbook":""}}`, "a Service needs a playbook, playbookContents or a role"},
		{"a role", service, `{"spec":{"playbook":null,"role":"r"}}`, ""},
		{"a playbook's text", service, `{"spec":{"playbook":null,"playbookContents":"- hosts: all"}}`, ""},
		{"a certificate of nothing", service, `{"spec":{"tlsCerts":{"default":{"contents":[]}}}}`, "should have at least 1 items"},
		{"no nodes", nodeSet, `{"spec":{"nodes":{}}}`, ""},
		{"nodes missing", nodeSet, `{"spec":{"nodes":null}}`, "spec.nodes: Required value"},
		{"a template missing", nodeSet, `{"spec":{"nodeTemplate":null}}`, "spec.nodeTemplate: Required value"},
		{"a key missing", nodeSet, `{"spec":{"nodeTemplate":{"ansibleSSHPrivateKeySecret":null}}}`, "Required value"},
		{"variables that are a text", nodeSet, `{"spec":{"nodes":{"a":{"ansible":{"ansibleVars":"b"}}}}}`, "must be of type object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := object(t, tt.base)
			o.SetNamespace(c.namespace)
			o.Object = merge(o.Object, fields(t, tt.patch))
			check(t, c.Create(t.Context(), o, client.DryRunAll), tt.refused)
		})
	}
}

// The spec of a Deployment stays as it was created, its metadata does not have to.
func TestDeploymentSpecIsImmutable(t *testing.T) {
	c := newCluster(t)
	o := object(t, deployment)
	o.Object = merge(o.Object, fields(t, `{"spec":{"ansibleExtraVars":{"a":{"b":[1]}}, "notModelled": 1}}`))
	o = c.create(t, o)
	const refused = "the spec of a Deployment cannot be changed"
	for _, tt := range []struct{ patch, refused string }{
		{`{"spec":{"ansibleLimit":"compute-0"}}`, refused},
		{`{"spec":{"nodeSets":["a"]}}`, refused},
		{`{"spec":{"backoffLimit":7}}`, refused},
		{`{"spec":{"backoffLimit":null}}`, ""}, // the default, which it has
		{`{"spec":{"ansibleExtraVars":{"a":{"b":[2]}}}}`, refused},
		{`{"spec":{"notModelled":2}}`, refused},
		{`{"spec":{"servicesOverride":["nova"]}}`, refused},
		{`{"spec":null}`, "spec: Required value"},
		{`{"metadata":{"finalizers":["rotation.openstack.org/settled"],"annotations":{"a":"b"}}}`, ""},
		{`{"spec":{"ansibleTags":""}}`, refused},
	} {
		check(t, c.patch(t, o, client.RawPatch(types.MergePatchType, []byte(tt.patch)), ""), tt.refused)
	}
}

// A SecretRollout cannot contradict itself, nor hold anything in the place of a version that is none.
func TestRolloutRules(t *testing.T) {
	c := newCluster(t)
	o := c.create(t, object(t, rollout))
	secret := func(fields string) string {
		return `{"status":{"secrets":[{"name":"s","expectedHash":"` + user8 + `","totalNodes":2,"updatedNodes":1` + fields + `}]}}`
	}
	for _, tt := range []struct{ patch, refused string }{
		{`{"status":{"updatedNodes":3,"degradedNodes":0}}`, ""},
		{`{"status":{"updatedNodes":2}}`, "a node cannot be both updated and degraded"},
		{`{"status":{"updatedNodes":4,"degradedNodes":0}}`, "there are no more than totalNodes"},
		{`{"status":{"degradedNodes":-1}}`, "greater than or equal to 0"},
		{`{"status":{"allNodesUpdated":true}}`, "allNodesUpdated needs nodes, and all of them updated"},
		{`{"status":{"allNodesUpdated":true,"updatedNodes":3,"degradedNodes":0}}`, ""},
		{`{"status":{"allNodesUpdated":true,"updatedNodes":0,"degradedNodes":0,"totalNodes":0}}`, "allNodesUpdated needs nodes"},
		{`{"status":{"allNodesUpdated":null}}`, "Required value"},
		{`{"status":{"configMapName":""}}`, "at least 1 chars"},
		{`{"status":{"unsettledDeployments":["a","a"]}}`, "Duplicate value"},
		{`{"status":{"hostSecrets":{"total":1,"updated":2}}}`, "updated cannot be more than total"},
		{secret(``), ""},
		{secret(`,"currentHash":"rabbit://user7:pw@rabbitmq:5671/"`), "should match"},
		{secret(`,"currentHash":"` + user8[:len(user8)-2] + `q"`), ""}, // another hash, as good as any
		{secret(`,"currentHash":"` + user8[:8] + `"`), "should match"},
		{secret(`,"updatedNodes":3`), "updatedNodes cannot be more than totalNodes"},
		{secret(`,"versions":[{"hash":"?","nodes":2}]`), ""},
		{secret(`,"versions":[{"hash":"?","nodes":3}]`), "no version can be on more than totalNodes"},
		{secret(`,"versions":[{"hash":"?","nodes":1},{"hash":"?","nodes":1}]`), "Duplicate value"},
		{`{"status":{"secrets":[{"name":"s","expectedHash":"?","totalNodes":2,"updatedNodes":1},{"name":"s","expectedHash":"?","totalNodes":2,"updatedNodes":1}]}}`, "Duplicate value"},
	} {
		check(t, c.patch(t, o, client.RawPatch(types.MergePatchType, []byte(tt.patch)), "status"), tt.refused)
		must(t, c.patch(t, o, client.RawPatch(types.MergePatchType, []byte(`{"status":{"totalNodes":3,"updatedNodes":1,"degradedNodes":2,"allNodesUpdated":false,"secrets":null}}`)), "status"))
	}
}

// check wants the error to contain the text, or no error where it is empty.
func check(t *testing.T, err error, refused string) {
	t.Helper()
	if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
		t.Errorf("got error %v, want %q", err, refused)
	}
}
