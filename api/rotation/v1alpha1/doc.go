// Package v1alpha1 is the API of the rotation operator: rotation.openstack.org.
//
// +kubebuilder:object:generate=true
// +groupName=rotation.openstack.org
package v1alpha1
