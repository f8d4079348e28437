// Package testbed is a namespace of the embedded control plane with the real operator at work in it, an executor that
// runs Deployments, and the steps of a rotation that one can take there.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/config/crd"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
	"github.com/rotation-operator/rotation-operator/internal/lab/lock"
	"github.com/rotation-operator/rotation-operator/internal/lab/standin"
	operatorpkg "github.com/rotation-operator/rotation-operator/internal/operator"
)

// Options say what a testbed is made of.
type Options struct {
	// ControlPlane has the project's definitions in it.
	ControlPlane *controlplane.ControlPlane
	// Namespace is created, with a suffix where it ends in a dash.
	Namespace string
	// Manager is the path of the operator's program.
	Manager string
	// Ansible runs the real ansible-playbook; otherwise runs are scripted.
	Ansible bool
	// Dir is where the operator's log goes, and the nodes' disks where Ansible runs.
	Dir string
	// Timeout bounds how long one thing is waited for.
	Timeout time.Duration
	// Log tells what the executor does; nil tells nobody.
	Log func(format string, args ...any)
}

// Testbed is one such namespace. It is for one goroutine.
type Testbed struct {
	options   Options
	namespace string
	client    client.WithWatch
	executor  *executor.Executor
	operator  *operator
	// bell rings when something has changed since it was heard last.
	bell chan struct{}
	// over are the Deployments that have been run to their end; deleted are those, by name, that a step has deleted.
	over     map[types.UID]bool
	deleted  map[types.UID]string
	stop     context.CancelFunc
	watchers sync.WaitGroup
}

// StartControlPlane starts a control plane with the project's definitions and policies in it, and with stand-ins of the
// credentials' kinds. Whoever starts it has to Stop it.
func StartControlPlane(ctx context.Context, options controlplane.Options) (*controlplane.ControlPlane, error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	err = plane.InstallCRDs(slices.Concat(definitions, standin.Definitions()))
	if err == nil {
		err = lock.Install(ctx, plane.Admin())
	}
	if err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return plane, nil
}

// New makes the namespace. The operator is not up yet. Whoever makes a testbed has to Close it.
func New(ctx context.Context, options Options) (*Testbed, error) {
	scheme, err := operatorpkg.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(options.ControlPlane.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("no client for the API server: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: options.Namespace}}
	if strings.HasSuffix(options.Namespace, "-") {
		namespace.ObjectMeta = metav1.ObjectMeta{GenerateName: options.Namespace}
	}
	if err := c.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("creating a namespace: %w", err)
	}
	b := &Testbed{
		options: options, namespace: namespace.Name, client: c, bell: make(chan struct{}, 1),
		over: map[types.UID]bool{}, deleted: map[types.UID]string{},
	}
	user, err := b.admitOperator(ctx)
	if err != nil {
		return nil, err
	}
	kubeconfig, _, err := options.ControlPlane.Kubeconfig(user)
	if err != nil {
		return nil, err
	}
	b.operator = &operator{
		program: options.Manager, kubeconfig: kubeconfig, namespace: b.namespace, log: filepath.Join(options.Dir, b.namespace+".log"),
	}
	b.executor = executor.New(executor.Options{
		Client: c, Namespace: b.namespace, Ansible: options.Ansible, NodesDir: b.NodesDir(), Log: options.Log,
	})
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	for _, list := range []client.ObjectList{
		&dataplanev1.OpenStackDataPlaneNodeSetList{}, &dataplanev1.OpenStackDataPlaneDeploymentList{},
		&rotationv1.SecretRolloutList{}, &corev1.ConfigMapList{}, &rotationv1.CredentialHoldList{},
		credentialsOf(schema.GroupVersionKind{Group: "rabbitmq.openstack.org", Version: "v1beta1", Kind: "RabbitMQUser"}),
	} {
		b.watchers.Go(func() { b.watch(watching, list) })
	}
	return b, nil
}

// Close ends the operator. The namespace stays.
func (b *Testbed) Close() {
	b.operator.stop()
	b.stop()
	b.watchers.Wait()
}

// Namespace is the testbed's namespace.
func (b *Testbed) Namespace() string { return b.namespace }

// NodesDir holds one directory per node that stands for the node's disk.
func (b *Testbed) NodesDir() string { return filepath.Join(b.options.Dir, b.namespace+"-nodes") }

// OperatorDone closes when the operator ends by itself; it is for as long as the operator is not stopped.
func (b *Testbed) OperatorDone() <-chan struct{} { return b.operator.done() }

// OperatorDied says how the operator has ended by itself. It is for after OperatorDone.
func (b *Testbed) OperatorDied() error { return b.operator.died() }

// OperatorLog gives the last lines of what the operator has logged.
func (b *Testbed) OperatorLog() string { return b.operator.lastWords() }

// StartOperator starts the operator and waits until it has caught up with the API server. It may be up already.
func (b *Testbed) StartOperator(ctx context.Context) error { return b.operator.start(ctx) }

// StopOperator lets the operator take in what there is, then asks it to end and waits for that. It may be down already.
func (b *Testbed) StopOperator(ctx context.Context) error {
	if err := b.CatchUp(ctx); err != nil {
		return err
	}
	b.operator.stop()
	return nil
}

// RestartOperator asks the operator to end, in the middle of whatever it does, and starts it again.
func (b *Testbed) RestartOperator(ctx context.Context) error {
	b.operator.stop()
	return b.operator.start(ctx)
}

// KillOperator ends the operator at once, in the middle of whatever it does. It may be down already.
func (b *Testbed) KillOperator() { b.operator.kill() }
