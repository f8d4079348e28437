package operator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/operator"
)

// TestMissingKindsAreNamed starts the operator on an API server that has none of the kinds.
func TestMissingKindsAreNamed(t *testing.T) {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	err = operator.Run(t.Context(), plane.Admin(), operator.Options{MetricsAddress: "0", HealthAddress: "0"})
	if err == nil || !strings.Contains(err.Error(), "does not serve") || !strings.Contains(err.Error(), "install") && !strings.Contains(err.Error(), "apply") {
		t.Errorf("unclear: %v", err)
	}
}
