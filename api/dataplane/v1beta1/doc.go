// Package v1beta1 is this project's view of openstack-operator's dataplane.openstack.org kinds.
//
// Names and types of fields are upstream's. Fields that nothing here reads are left out; the API server keeps them
// because every object in these schemas preserves unknown fields, and because foreign objects are patched, never
// updated from these types. Apart from that, status.secretDeployment of the NodeSet is the only addition.
//
// +kubebuilder:object:generate=true
// +groupName=dataplane.openstack.org
package v1beta1
