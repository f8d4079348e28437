package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "rotation.openstack.org", Version: "v1alpha1"}

// AddToScheme adds the kinds in this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &SecretRollout{}, &SecretRolloutList{}, &CredentialGuard{}, &CredentialGuardList{},
		&CredentialHold{}, &CredentialHoldList{}, &CredentialOverride{}, &CredentialOverrideList{},
		&NodeAttestation{}, &NodeAttestationList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
