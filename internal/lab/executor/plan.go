package executor

import (
	"slices"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// planServices says which services run on which NodeSet, in order. Of services with the same place on the nodes only
// the first runs on a NodeSet, and a service for all NodeSets runs with the first of them that lists it. A service
// that does not exist stays in the plan, because openstack-operator fails only when its turn comes.
//
// openstack-operator at 84322c7 forgets all but the last new service for all NodeSets of each NodeSet, and then waits
// for ever for a second Job of that service; that is left out.
func planServices(nodeSets []*dataplanev1.OpenStackDataPlaneNodeSet, override []string, known map[string]*dataplanev1.OpenStackDataPlaneService) map[string][]string {
	plan := map[string][]string{}
	var global []string
	for _, nodeSet := range nodeSets {
		wanted := nodeSet.Spec.Services
		if len(override) > 0 {
			wanted = override
		}
		var places, run []string
		for _, name := range wanted {
			service := known[name]
			switch {
			case slices.Contains(run, name):
				continue
			case service == nil:
				run = append(run, name)
				continue
			case slices.Contains(places, placeOf(service)), service.Spec.DeployOnAllNodeSets && slices.Contains(global, name):
				continue
			case service.Spec.DeployOnAllNodeSets:
				global = append(global, name)
			}
			places, run = append(places, placeOf(service)), append(run, name)
		}
		plan[nodeSet.Name] = run
	}
	return plan
}

// servicesOf are all services that the plan could draw from, without doubles.
func servicesOf(nodeSets []*dataplanev1.OpenStackDataPlaneNodeSet, override []string) []string {
	if len(override) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(override)))
	}
	var names []string
	for _, nodeSet := range nodeSets {
		names = append(names, nodeSet.Spec.Services...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
