// Package lock puts the admission policies into a control plane and waits until they are in force.
package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/config/policies"
	"github.com/rotation-operator/rotation-operator/internal/operator"
)

// Install applies the policies, as docs/gate.md says it: without the mutating ones where the API server has no such kind.
func Install(ctx context.Context, to *rest.Config) error {
	objects, err := policies.Objects()
	if err != nil {
		return err
	}
	scheme, err := operator.Scheme()
	if err != nil {
		return err
	}
	c, err := client.New(to, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("no client for the API server: %w", err)
	}
	for _, object := range objects {
		err := c.Create(ctx, object)
		if meta.IsNoMatchError(err) && strings.HasPrefix(object.GetKind(), "Mutating") {
			continue
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return inForce(ctx, c)
}

// inForce waits until the API server refuses what only the operator may do. It takes in policies one after the other, in
// no order; one that is asked for by each kind of request is waited for.
func inForce(ctx context.Context, c client.Client) error {
	const pause, limit = 50 * time.Millisecond, 30 * time.Second
	named := metav1.ObjectMeta{Namespace: "default", GenerateName: "is-refused-"}
	word := rotationv1.Word{By: "nobody", Reason: "a try", Until: metav1.Now()}
	for _, object := range []client.Object{
		&rotationv1.CredentialHold{ObjectMeta: named, Spec: rotationv1.CredentialHoldSpec{Guard: "g",
			Credential: rotationv1.CredentialReference{Group: "g", Kind: "K", Resource: "r", Name: "n", UID: "u"}}},
		&rotationv1.CredentialOverride{ObjectMeta: named, Spec: rotationv1.CredentialOverrideSpec{Kind: "K", Name: "n", Word: word}},
	} {
		var last error
		err := wait.PollUntilContextTimeout(ctx, pause, limit, true, func(ctx context.Context) (bool, error) {
			last = c.Create(ctx, object, client.DryRunAll)
			return last != nil && strings.Contains(last.Error(), "ValidatingAdmissionPolicy"), nil
		})
		if err != nil {
			return fmt.Errorf("the admission policies do not come into force: %w", errors.Join(err, last))
		}
	}
	return nil
}
