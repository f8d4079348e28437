package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/iancoleman/strcase"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

// jobName is how openstack-operator names the Job of a service. A service that is deployed on all NodeSets at once has
// one Job for all of them, without a NodeSet in its name.
func jobName(service *dataplanev1.OpenStackDataPlaneService, deployment, nodeSet string) string {
	name := service.Name + "-" + deployment
	if !service.Spec.DeployOnAllNodeSets {
		name += "-" + nodeSet
	}
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	const digits = 8
	sum := sha256.Sum256([]byte(name))
	prefix := strings.TrimRight(name[:validation.DNS1123LabelMaxLength-1-digits], "-.")
	return prefix + "-" + hex.EncodeToString(sum[:])[:digits]
}

// volumeName is how openstack-operator names a volume; one that is too long becomes its hash behind the short word.
func volumeName(name, short string) string {
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	sum := sha256.Sum224([]byte(name))
	return short + hex.EncodeToString(sum[:])
}

// serviceCondition is the type of a service's condition in nodeSetConditions.
func serviceCondition(service string) string {
	return "Service" + strcase.ToCamel(service) + "DeploymentReady"
}

// inventoryName names the Secret with a NodeSet's inventory.
func inventoryName(nodeSet string) string { return "dataplanenodeset-" + nodeSet }

// placeOf is where the files of a service go: its edpmServiceType, which a webhook of openstack-operator defaults to
// the service's name.
func placeOf(service *dataplanev1.OpenStackDataPlaneService) string {
	if service.Spec.EDPMServiceType != "" {
		return service.Spec.EDPMServiceType
	}
	return service.Name
}

// objectHash is lib-common's hash of anything that can be written as JSON.
func objectHash(object any) (string, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("hashing: %w", err)
	}
	return rand.SafeEncodeString(fmt.Sprint(sha256.Sum256(text))), nil
}
