package tracking

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/store"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

// mendOutsideChange looks whether somebody else changed or deleted the record that this process wrote. What this
// process knows is not lost by that: it will be written again. Text that nobody can read is set aside first.
func (t *Tracker) mendOutsideChange(ctx context.Context, s *state, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) error {
	if s.stored.Version() == "" {
		return nil
	}
	var seen metav1.PartialObjectMetadata
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err := t.options.Client.Get(ctx, client.ObjectKey{Namespace: nodeSet.Namespace, Name: store.ConfigMapName(nodeSet.Name)}, &seen)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("ConfigMap %s: %w", store.ConfigMapName(nodeSet.Name), err)
	}
	if !apierrors.IsNotFound(err) && upstream.Revision(seen.ResourceVersion) <= upstream.Revision(s.stored.Version()) {
		return nil // as it was written, or a cache that has not seen that yet
	}
	now, err := t.store.Load(ctx, client.ObjectKeyFromObject(nodeSet))
	if err != nil || now.Version() == s.stored.Version() {
		return err
	}
	log.FromContext(ctx).Info("Somebody changed the record; it is written again")
	if _, _, err := trackmap.Decode(now.Objects, string(s.uid)); store.IsLost(err) {
		if s.aside, err = t.store.SetAside(ctx, client.ObjectKeyFromObject(nodeSet), now); err != nil {
			return err
		}
	}
	s.stored = now
	return nil
}
