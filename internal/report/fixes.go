package report

import (
	"fmt"
	"slices"
	"strings"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// fixes are the commands that help with a check, in the order in which to try them.
func fixes(c *Credential, check Check, request verdict.Request) []string {
	in := " -n " + c.Namespace
	switch verdict.Reason(check.Reason) {
	case verdict.ReasonNodesBehind, verdict.ReasonNodesUnknown:
		if len(verdict.Carriers(request)) > 0 { // a Deployment now would bring the same credential
			return append([]string{"When no Secret in the cluster carries it any more:"}, nodeFixes(check.Nodes, in)...)
		}
		return nodeFixes(check.Nodes, in)
	case verdict.ReasonRestartUnproved:
		return []string{"Prove the restart: run the service of config/proof on these nodes (docs/proof.md)",
			"Or rotate once more, then deploy the nodes: only another version restarts the service for sure"}
	case verdict.ReasonSafe, verdict.ReasonOverrideInForce: // nothing is to be mended
	case verdict.ReasonStillInCluster:
		if len(verdict.Carriers(request)) == 0 { // it was rotated a moment ago; the operator will say when it counts
			return []string{fmt.Sprintf("kubectl rotation wait --for safe %s/%s%s", strings.ToLower(c.Kind), c.Name, in)}
		}
		return []string{"Change the credential that these Secrets carry, then deploy the nodes",
			fmt.Sprintf("kubectl rotation who-uses %s%s", c.Identity, in)}
	case verdict.ReasonDeploymentUnsettled:
		var all []string
		for _, nodeSet := range request.NodeSets {
			for _, name := range nodeSet.Unsettled {
				command := fmt.Sprintf("kubectl%s wait openstackdataplanedeployment/%s --for=condition=Ready --timeout=60m", in, name)
				if !slices.Contains(all, command) {
					all = append(all, command)
				}
			}
		}
		return all
	case verdict.ReasonIdentityNotFound, verdict.ReasonNothingTracked:
		return []string{fmt.Sprintf("kubectl%s edit credentialguard %s", in, c.Guard)}
	case rotationv1.ReasonOperatorStopped:
		return []string{"Start the rotation operator again, then ask once more"}
	case verdict.ReasonEvidenceIncomplete, ReasonNotJudged:
		return []string{"kubectl rotation doctor" + in}
	}
	return []string{"kubectl rotation doctor" + in}
}

// nodeFixes deploys the nodes that can be deployed; of the others somebody has to say that they are gone.
func nodeFixes(nodes []NodeRef, in string) []string {
	var nodeSets, departed []string
	for _, node := range nodes {
		switch {
		case node.Departed:
			departed = append(departed, node.NodeSet+"/"+node.Name)
		case !slices.Contains(nodeSets, node.NodeSet):
			nodeSets = append(nodeSets, node.NodeSet)
		}
	}
	var all []string
	for _, nodeSet := range nodeSets {
		all = append(all, fmt.Sprintf("kubectl rotation next %s%s | kubectl%s apply -f -", nodeSet, in, in))
	}
	if len(departed) > 0 {
		const most = 20
		names := strings.Join(departed[:min(len(departed), most)], " ")
		all = append(all, fmt.Sprintf("kubectl rotation attest %s%s --reason 'why it is gone'", names, in))
	}
	return all
}
