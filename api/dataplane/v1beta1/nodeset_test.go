package v1beta1

import "testing"

func TestInventoryHost(t *testing.T) {
	nodeSet := &OpenStackDataPlaneNodeSet{Spec: OpenStackDataPlaneNodeSetSpec{Nodes: map[string]NodeSection{
		"short": {HostName: "compute-0"}, "domain": {HostName: "compute-1.example.com"}, "key": {}, "key.with.dots": {},
	}}}
	for key, want := range map[string]string{
		"short": "compute-0", "domain": "compute-1", "key": "key", "key.with.dots": "key", "no-such-node": "",
	} {
		if got := nodeSet.InventoryHost(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestFindCondition(t *testing.T) {
	conditions := Conditions{{Type: ConditionInputReady}, {Type: ConditionReady, Reason: ReasonInit}}
	if got := conditions.Find(ConditionReady); got != &conditions[1] {
		t.Errorf("found %v", got)
	}
	if got := conditions.Find(ConditionSetupReady); got != nil {
		t.Errorf("found %v where there is none", got)
	}
}
