package executor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
)

func isTrue(conditionType, message string) dataplanev1.Condition {
	return dataplanev1.Condition{Type: conditionType, Status: corev1.ConditionTrue, Reason: dataplanev1.ReasonReady, Message: message}
}

func isUnknown(conditionType, message string) dataplanev1.Condition {
	return dataplanev1.Condition{Type: conditionType, Status: corev1.ConditionUnknown, Reason: dataplanev1.ReasonInit, Message: message}
}

func isRequested(conditionType, message string) dataplanev1.Condition {
	return dataplanev1.Condition{
		Type: conditionType, Status: corev1.ConditionFalse, Severity: dataplanev1.SeverityInfo,
		Reason: dataplanev1.ReasonRequested, Message: message,
	}
}

func isError(conditionType, reason, message string) dataplanev1.Condition {
	return dataplanev1.Condition{
		Type: conditionType, Status: corev1.ConditionFalse, Severity: dataplanev1.SeverityError, Reason: reason, Message: message,
	}
}

// hasFailed is what openstack-operator calls an error.
func hasFailed(condition *dataplanev1.Condition) bool {
	return condition != nil && condition.Status == corev1.ConditionFalse &&
		(condition.Reason == dataplanev1.ReasonError || condition.Reason == dataplanev1.ReasonBackoffLimitExceeded)
}

// hasStatus tells whether the list has the condition with that status.
func hasStatus(conditions dataplanev1.Conditions, conditionType string, status corev1.ConditionStatus) bool {
	condition := conditions.Find(conditionType)
	return condition != nil && condition.Status == status
}

// mirror gives a condition that shows the worst of the list: errors, warnings, waiting, unknown, and the first of those.
func mirror(conditionType string, conditions dataplanev1.Conditions) dataplanev1.Condition {
	worst := dataplanev1.Condition{Status: corev1.ConditionTrue}
	for _, condition := range conditions {
		if rank(condition) < rank(worst) {
			worst = condition
		}
	}
	worst.Type = conditionType
	return worst
}

func rank(condition dataplanev1.Condition) int {
	order := []string{"False/Error", "False/Warning", "False/Info", "Unknown/", "True/"}
	return slices.Index(order, fmt.Sprintf("%s/%s", condition.Status, condition.Severity))
}

// listed puts the conditions in upstream's order, Ready first and the others by type, with the time since when each
// is as it is.
func listed(conditions, before dataplanev1.Conditions, now metav1.Time) dataplanev1.Conditions {
	order := func(c dataplanev1.Condition) string {
		if c.Type == dataplanev1.ConditionReady {
			return ""
		}
		return c.Type
	}
	slices.SortFunc(conditions, func(a, b dataplanev1.Condition) int { return strings.Compare(order(a), order(b)) })
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		old := before.Find(conditions[i].Type)
		if old == nil {
			continue
		}
		same := conditions[i]
		same.LastTransitionTime = old.LastTransitionTime
		if same == *old {
			conditions[i] = same
		}
	}
	return conditions
}
