package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/controller/tracking"
)

// Withdraw takes every Safe back, for an operator that stops: nobody sees any more what is taken into use, and the admission
// policies go by what stands in the holds. No namespaces means all.
func Withdraw(ctx context.Context, c client.Client, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	var failed error
	for _, namespace := range namespaces {
		var holds rotationv1.CredentialHoldList
		if err := c.List(ctx, &holds, client.InNamespace(namespace)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("listing holds: %w", err))
		}
		for i := range holds.Items {
			hold := &holds.Items[i]
			if hold.Status.Verdict != rotationv1.VerdictSafe {
				continue
			}
			want := hold.DeepCopy()
			want.Status = statusOf(hold, hold, unknown(rotationv1.ReasonOperatorStopped,
				"The rotation operator was stopped and sees no longer who uses "+hold.Status.Identity+"; it judges anew when it is back"), "", now)
			err := c.Status().Patch(ctx, want, client.MergeFromWithOptions(hold, client.MergeFromWithOptimisticLock{}), client.FieldOwner(tracking.FieldManager))
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // another one is at work already
				failed = errors.Join(failed, fmt.Errorf("status of CredentialHold %s: %w", hold.Name, err))
			}
		}
	}
	return failed
}
