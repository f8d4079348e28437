// Package testplane gives a test binary one control plane, with the project's definitions in it, for all its tests.
package testplane

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rotation-operator/rotation-operator/config/crd"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/lock"
	"github.com/rotation-operator/rotation-operator/internal/lab/standin"
	"github.com/rotation-operator/rotation-operator/internal/operator"
)

var shared *controlplane.ControlPlane

// Main is for TestMain: it runs the tests with a control plane and stops it after them.
func Main(m *testing.M) { os.Exit(run(m, func(*controlplane.ControlPlane) error { return nil })) }

// MainWithPolicies is Main with the admission policies in force.
func MainWithPolicies(m *testing.M) {
	os.Exit(run(m, func(plane *controlplane.ControlPlane) error { return lock.Install(context.Background(), plane.Admin()) }))
}

func run(m *testing.M, prepare func(*controlplane.ControlPlane) error) int {
	var err error
	// With ROTATION_EMULATE=1.33 the tests see what an older API server does.
	options := controlplane.Options{Emulate: os.Getenv("ROTATION_EMULATE")}
	if shared, err = controlplane.Start(context.Background(), options); err != nil {
		fmt.Fprintln(os.Stderr, "the tests need a control plane:", err)
		return 1
	}
	defer shared.Stop() //nolint:errcheck // nothing can be done about it any more
	definitions, err := crd.Definitions()
	if err == nil {
		err = shared.InstallCRDs(slices.Concat(definitions, standin.Definitions()))
	}
	if err == nil {
		err = prepare(shared)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Plane is the control plane of the test binary.
func Plane(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	if shared == nil {
		t.Fatal("TestMain must call testplane.Main")
	}
	return shared
}

// Client is a client with all rights that knows our kinds.
func Client(t testing.TB) client.WithWatch {
	t.Helper()
	scheme, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(Plane(t).Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Namespace makes a namespace for the test alone. It stays: no controller would end it.
func Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := Client(t).Create(context.Background(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}
