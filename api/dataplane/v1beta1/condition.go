package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is openstack-operator's own form of a condition: with a severity, without observedGeneration.
//
// +kubebuilder:pruning:PreserveUnknownFields
type Condition struct {
	// type of condition, in CamelCase.
	Type string `json:"type"`
	// status of the condition: True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// severity classifies a status of False; it is empty otherwise.
	// +optional
	Severity Severity `json:"severity,omitempty"`
	// lastTransitionTime is when the status changed last. In nodeSetConditions and deploymentStatuses upstream renews
	// it at every reconcile, so there it means nothing.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason for the last transition, in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// Severity says how bad a condition with status False is.
type Severity string

const (
	// SeverityError marks a failure for good.
	SeverityError Severity = "Error"
	// SeverityWarning marks a failure that the controller tries again.
	SeverityWarning Severity = "Warning"
	// SeverityInfo marks waiting.
	SeverityInfo Severity = "Info"
)

// Types of conditions. The ones of single services (Service<CamelCase>DeploymentReady) cannot be led back to the
// service's name, so they have no function here.
const (
	// ConditionReady sums up the others. It is first in upstream's lists.
	ConditionReady = "Ready"
	// ConditionInputReady says that what an object refers to was found.
	ConditionInputReady = "InputReady"
	// ConditionSetupReady says, on a NodeSet, that a Deployment may begin.
	ConditionSetupReady = "SetupReady"
	// ConditionDeploymentReady says, on a Deployment, that all its services ran on all its NodeSets.
	ConditionDeploymentReady = "DeploymentReady"
	// ConditionNodeSetDeploymentReady says, in a Deployment's nodeSetConditions, the same of one NodeSet.
	ConditionNodeSetDeploymentReady = "NodeSetDeploymentReady"
)

// Reasons of conditions.
const (
	// ReasonInit means not started.
	ReasonInit = "Init"
	// ReasonRequested means going on.
	ReasonRequested = "Requested"
	// ReasonReady means done.
	ReasonReady = "Ready"
	// ReasonError means failed; the severity tells whether for good.
	ReasonError = "Error"
	// ReasonBackoffLimitExceeded means that a Job used up its attempts.
	ReasonBackoffLimitExceeded = "BackoffLimitExceeded"
)

// Conditions is a list of conditions, each type at most once.
type Conditions []Condition

// Find gives the condition of a type, nil where there is none.
func (c Conditions) Find(conditionType string) *Condition {
	for i := range c {
		if c[i].Type == conditionType {
			return &c[i]
		}
	}
	return nil
}
