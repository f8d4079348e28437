package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/config/guards"
	"github.com/rotation-operator/rotation-operator/internal/controller/guard"
)

// CreateGuard creates a guard that ships with the project.
func (b *Testbed) CreateGuard(ctx context.Context, name string) error {
	declared, err := guards.Named(name)
	if err != nil {
		return err
	}
	declared.Namespace = b.namespace
	return b.create(ctx, declared)
}

// CreateCredential creates an object of the kind that the guard guards. Its name is the credential's identity.
func (b *Testbed) CreateCredential(ctx context.Context, guardName, name string) error {
	object, err := b.credential(guardName, name)
	if err != nil {
		return err
	}
	// For some seconds after a kind has been defined, admission by a mutating policy does not know its schema.
	const pause = 100 * time.Millisecond
	deadline := time.Now().Add(b.options.Timeout)
	for {
		err := b.create(ctx, object)
		if err == nil || !strings.Contains(err.Error(), "There can be a delay") || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (b *Testbed) credential(guardName, name string) (*unstructured.Unstructured, error) {
	declared, err := guards.Named(guardName)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(declared.Spec.Credential.APIVersion, declared.Spec.Credential.Kind))
	object.SetNamespace(b.namespace)
	object.SetName(name)
	return object, nil
}

// Attest says in the caller's name that nodes are gone for good, for an hour.
func (b *Testbed) Attest(ctx context.Context, nodeSet string, nodes []string) error {
	if err := b.CatchUp(ctx); err != nil {
		return err
	}
	word, err := b.word(ctx)
	if err != nil {
		return err
	}
	return b.create(ctx, &rotationv1.NodeAttestation{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, GenerateName: "gone-"},
		Spec:       rotationv1.NodeAttestationSpec{NodeSet: nodeSet, Nodes: nodes, Word: word},
	})
}

// Override says in the caller's name that a credential may go, for an hour.
func (b *Testbed) Override(ctx context.Context, guardName, name string) error {
	if err := b.CatchUp(ctx); err != nil {
		return err
	}
	object, err := b.credential(guardName, name)
	if err != nil {
		return err
	}
	word, err := b.word(ctx)
	if err != nil {
		return err
	}
	return b.create(ctx, &rotationv1.CredentialOverride{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, GenerateName: "go-"},
		Spec:       rotationv1.CredentialOverrideSpec{Kind: object.GetKind(), Name: name, Word: word},
	})
}

func (b *Testbed) word(ctx context.Context) (rotationv1.Word, error) {
	// A word does not count for a run that ended within the skew of clocks before it, which is five seconds.
	const skew = 6 * time.Second
	select {
	case <-time.After(skew):
	case <-ctx.Done():
		return rotationv1.Word{}, ctx.Err()
	}
	self := &authenticationv1.SelfSubjectReview{}
	if err := b.client.Create(ctx, self); err != nil {
		return rotationv1.Word{}, fmt.Errorf("asking who we are: %w", err)
	}
	return rotationv1.Word{By: self.Status.UserInfo.Username, Reason: "a scenario says so", Until: metav1.NewTime(time.Now().Add(time.Hour))}, nil
}

// AwaitHold waits until the hold on a credential says what is wanted: until differs gives no differences. Left is what
// differs at the end. While the operator is down the hold is looked at once.
func (b *Testbed) AwaitHold(ctx context.Context, guardName, name string, differs func(rotationv1.CredentialHoldStatus) []string) (status rotationv1.CredentialHoldStatus, left []string, err error) {
	if err := b.CatchUp(ctx); err != nil {
		return status, nil, err
	}
	look := func(ctx context.Context) (string, error) {
		hold := &rotationv1.CredentialHold{}
		if err := b.client.Get(ctx, b.key(guard.HoldName(guardName, name)), hold); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("CredentialHold of %s: %w", name, err)
		}
		status = hold.Status
		left = differs(status)
		return strings.Join(left, "; "), nil
	}
	if !b.operator.isUp() {
		_, err = look(ctx)
		return status, left, err
	}
	_, err = b.await(ctx, look)
	return status, left, err
}

// AwaitDeletion waits until the API server refuses to delete a credential, or until it is willing to. Then the
// credential is really deleted: refused it has to stay as it is, and accepted it has to be gone in the end. Said is
// what the API server says to a refusal; left is what is not as wanted at the end.
func (b *Testbed) AwaitDeletion(ctx context.Context, guardName, name string, wantRefused bool, differs func(said string) []string) (said string, left []string, err error) {
	if err := b.CatchUp(ctx); err != nil {
		return "", nil, err
	}
	try := func(ctx context.Context, options ...client.DeleteOption) error {
		object, err := b.credential(guardName, name)
		if err != nil {
			return err
		}
		said, left = "", nil
		err = b.client.Delete(ctx, object, options...)
		switch {
		case err == nil && wantRefused:
			left = []string{"the API server does not refuse"}
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			said = err.Error()
			if !wantRefused {
				left = []string{"the API server refuses: " + said}
			} else {
				left = differs(said)
			}
		case apierrors.IsNotFound(err) && !wantRefused:
			// it was on its way already
		case err != nil:
			return fmt.Errorf("deleting %s: %w", name, err)
		}
		return nil
	}
	waitingFor, err := b.await(ctx, func(ctx context.Context) (string, error) {
		err := try(ctx, client.DryRunAll)
		return strings.Join(left, "; "), err
	})
	if err != nil || waitingFor != "" {
		return said, left, err
	}
	if err := try(ctx); err != nil || wantRefused || len(left) > 0 {
		return said, left, err
	}
	waitingFor, err = b.await(ctx, func(ctx context.Context) (string, error) {
		object, err := b.credential(guardName, name)
		if err != nil {
			return "", err
		}
		switch err := b.client.Get(ctx, client.ObjectKeyFromObject(object), object); {
		case apierrors.IsNotFound(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return fmt.Sprintf("%s is deleted and waits for %s", name, strings.Join(object.GetFinalizers(), ", ")), nil
	})
	if waitingFor != "" {
		left = []string{waitingFor}
	}
	return said, left, err
}

// credentialsOf is a list to watch the credentials of a kind by.
func credentialsOf(kind schema.GroupVersionKind) client.ObjectList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}
