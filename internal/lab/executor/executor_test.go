package executor

import (
	"encoding/json"
	"testing"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

func TestFirst(t *testing.T) {
	b := newBed(t)
	b.user("user7")
	b.novaService()
	b.nodeSet("edpm", []string{"compute-0", "compute-1"}, []string{"nova"})
	b.deployment("initial", nil, "edpm")
	b.must(b.Run(t.Context(), "initial", []Outcome{{Succeeded: true}}))
	j, _ := json.MarshalIndent(b.job("nova-initial-edpm"), "", " ")
	t.Log(string(j))
	p, _ := json.MarshalIndent(b.pods("nova-initial-edpm"), "", " ")
	t.Log(string(p))
	d, _ := json.MarshalIndent(read[dataplanev1.OpenStackDataPlaneDeployment](b, "initial"), "", " ")
	t.Log(string(d))
	d, _ = json.MarshalIndent(read[dataplanev1.OpenStackDataPlaneNodeSet](b, "edpm"), "", " ")
	t.Log(string(d))
}
