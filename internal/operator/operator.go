// Package operator wires the controllers, the API server and the process together.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/controller/guard"
	"github.com/rotation-operator/rotation-operator/internal/controller/tracking"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
)

// Version is the version of the project, put in when it is built.
var Version = "unknown"

// Options are what the operator is started with.
type Options struct {
	// Namespaces are those to look at; none means all.
	Namespaces []string
	// Margin is how long before a pod's creation a kubelet may still have served the older content of a Secret.
	Margin time.Duration
	// MetricsAddress and HealthAddress are where metrics and probes are served; "0" serves none.
	MetricsAddress, HealthAddress string
	// LeaderElection lets only one of several processes work; its Lease lives in LeaderElectionNamespace.
	LeaderElection          bool
	LeaderElectionNamespace string
}

// Scheme knows the kinds that the operator reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, dataplanev1.AddToScheme, rotationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// Run works until the context ends. At its end it takes back what it called safe.
func Run(ctx context.Context, to *rest.Config, options Options) error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	yes := true
	manager, err := ctrl.NewManager(to, ctrl.Options{
		Scheme: scheme, Cache: cacheOptions(options),
		Metrics:                metricsserver.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress: options.HealthAddress,
		LeaderElection:         options.LeaderElection, LeaderElectionID: "rotation-operator.rotation.openstack.org",
		LeaderElectionNamespace: options.LeaderElectionNamespace,
		Controller:              config.Controller{SkipNameValidation: &yes}, // tests run several managers in one process
	})
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	if err := kindsAreServed(manager.GetRESTMapper()); err != nil {
		return err
	}
	watcher, err := client.NewWithWatch(to, client.Options{Scheme: scheme, Mapper: manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	guards := guard.NewController()
	tracker := tracking.NewTracker(tracking.Options{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Watch: watcher, Namespaces: options.Namespaces, Margin: options.Margin,
		Judged: guards.Judged,
	})
	if err := tracker.SetupWithManager(manager); err != nil {
		return err
	}
	err = guards.SetupWithManager(manager, guard.Options{Client: manager.GetClient(), Live: manager.GetAPIReader(), Tracker: tracker,
		Events: manager.GetEventRecorder("rotation-operator")})
	if err != nil {
		return err
	}
	ready := func(*http.Request) error {
		if options.LeaderElection && !isElected(manager) {
			return nil // it stands by
		}
		select {
		case <-tracker.Ready():
			return nil
		default:
			return errors.New("the watches have not caught up yet")
		}
	}
	if err := errors.Join(manager.AddReadyzCheck("tracker", ready), manager.AddHealthzCheck("ping", func(*http.Request) error { return nil })); err != nil {
		return fmt.Errorf("adding probes: %w", err)
	}
	err = manager.Start(ctx)
	if ctx.Err() == nil || !isElected(manager) {
		return err
	}
	const patience = 10 * time.Second
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return errors.Join(err, guard.Withdraw(last, watcher, options.Namespaces))
}

func isElected(manager ctrl.Manager) bool {
	select {
	case <-manager.Elected():
		return true
	default:
		return false
	}
}

// kindsAreServed says at once, and in words, what a cache would only wait for.
func kindsAreServed(mapper meta.RESTMapper) error {
	for kind, remedy := range map[schema.GroupVersionKind]string{
		rotationv1.GroupVersion.WithKind("SecretRollout"):                 "apply config/crd/rotation.openstack.org_secretrollouts.yaml",
		rotationv1.GroupVersion.WithKind("CredentialGuard"):               "apply config/crd/rotation.openstack.org_credentialguards.yaml",
		rotationv1.GroupVersion.WithKind("CredentialHold"):                "apply config/crd/rotation.openstack.org_credentialholds.yaml",
		rotationv1.GroupVersion.WithKind("CredentialOverride"):            "apply config/crd/rotation.openstack.org_credentialoverrides.yaml",
		rotationv1.GroupVersion.WithKind("NodeAttestation"):               "apply config/crd/rotation.openstack.org_nodeattestations.yaml",
		dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneNodeSet"):    "install openstack-operator",
		dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneDeployment"): "install openstack-operator",
		dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneService"):    "install openstack-operator",
	} {
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the API server does not serve %s: %s", kind.GroupKind(), remedy)
		}
		if err != nil {
			return fmt.Errorf("asking for %s: %w", kind.GroupKind(), err)
		}
	}
	return nil
}

// cacheOptions keep out of the cache what the operator has no use for. Pods and Secrets are never in it.
func cacheOptions(options Options) cache.Options {
	ansible := labels.SelectorFromSet(labels.Set{upstream.LabelApp: upstream.AppValue})
	c := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		ByObject:                    map[client.Object]cache.ByObject{&batchv1.Job{}: {Label: ansible}},
	}
	if len(options.Namespaces) > 0 {
		c.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range options.Namespaces {
			c.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return c
}
