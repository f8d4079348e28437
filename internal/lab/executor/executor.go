// Package executor plays the part of openstack-operator, of Kubernetes' Job controller, scheduler, kubelet and garbage
// collector for one namespace of the embedded control plane, where none of them runs.
package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// HostOutcome is how a run ends on one host.
type HostOutcome string

const (
	// HostOK is a host on which every task went well.
	HostOK HostOutcome = "ok"
	// HostFailed is a host that the recap lists as failed.
	HostFailed HostOutcome = "failed"
	// HostUnreachable is a host that the recap lists as unreachable.
	HostUnreachable HostOutcome = "unreachable"
	// HostUnlisted is a host that the recap does not count at all, because Ansible stopped before it.
	HostUnlisted HostOutcome = "unlisted"
)

// Outcome is how a run is to end.
type Outcome struct {
	// Succeeded says that the run exits with 0.
	Succeeded bool
	// Hosts says how it ends on single hosts. A host that is not named is ok where the run succeeds. Where it fails
	// and Hosts is empty, the first host of the run has failed; the other hosts are unlisted.
	Hosts map[string]HostOutcome
}

// Options say for whom the executor works and how.
type Options struct {
	// Client has the rights of openstack-operator and of Kubernetes' own controllers.
	Client client.WithWatch
	// Namespace is the only one that the executor looks at.
	Namespace string
	// Ansible runs the real ansible-playbook; otherwise runs are scripted.
	Ansible bool
	// NodesDir holds one directory per node that stands for the node's disk. It is needed with Ansible only.
	NodesDir string
	// Log tells what happens; nil tells nobody. It never gets content of Secrets.
	Log func(format string, args ...any)
}

// Executor runs Deployments.
type Executor struct {
	options Options

	mutex sync.Mutex
	// running are the Deployments that were started and are not finished.
	running map[types.UID]*session
	// changes numbers the Deployments by their last change of readiness, within the seconds that its time cannot tell
	// apart.
	changes map[string]int
	last    int
}

// New makes an executor. It does nothing until it is told to.
func New(options Options) *Executor {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	return &Executor{options: options, running: map[types.UID]*session{}, changes: map[string]int{}}
}

// Rules are the rights that the executor's user needs in its namespace.
func Rules() []rbacv1.PolicyRule {
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/status", "pods/binding", "secrets", "configmaps", "serviceaccounts"}, Verbs: all},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs", "jobs/status"}, Verbs: all},
		{APIGroups: []string{dataplanev1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{rotationv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "delete"}},
	}
}

// Start begins a Deployment: the Jobs of the first service of every NodeSet are there and their pods running, with the
// Secrets mounted as they are at that moment. Where one cannot begin, the Deployment's conditions say why, as upstream,
// and Start can be called again.
func (e *Executor) Start(ctx context.Context, deployment string) error {
	s, err := e.open(ctx, deployment)
	if err != nil {
		return err
	}
	var problems []error
	for _, l := range s.lanes {
		if !l.isDone() && !l.running {
			problems = append(problems, e.begin(ctx, s, l))
		}
	}
	return errors.Join(append(problems, e.report(ctx, s))...)
}

// Finish ends the running pods of a started Deployment with the outcome and goes through its remaining services with
// the same outcome, to its end. A Job whose pod fails has failed, whatever attempts its backoffLimit leaves. With
// Ansible, what really happens decides; of the outcome it takes over which hosts are broken or cannot be reached.
func (e *Executor) Finish(ctx context.Context, deployment string, outcome Outcome) error {
	return e.finish(ctx, deployment, []Outcome{outcome})
}

// Run starts a Deployment and goes through it to its end. Each Job gets a pod for each attempt until one succeeds; it
// fails if the last one does.
func (e *Executor) Run(ctx context.Context, deployment string, attempts []Outcome) error {
	if len(attempts) == 0 {
		return fmt.Errorf("Deployment %s has no attempt to run", deployment)
	}
	if err := e.Start(ctx, deployment); err != nil {
		return err
	}
	return e.finish(ctx, deployment, attempts)
}

func (e *Executor) get(ctx context.Context, name string, object client.Object) error {
	return e.options.Client.Get(ctx, client.ObjectKey{Namespace: e.options.Namespace, Name: name}, object)
}

// patch changes what change changes in an object, and nothing else. The writer is the component that it is done for.
func patch[T client.Object](ctx context.Context, writer client.SubResourceWriter, as string, object T, change func(T)) error {
	before, ok := object.DeepCopyObject().(T)
	if !ok {
		panic("executor: a copy has the type of its original")
	}
	change(object)
	return writer.Patch(ctx, object, client.MergeFrom(before), client.FieldOwner(as))
}

// Components whose part the executor plays, as managedFields name them.
const (
	asOperator   = "openstack-operator"
	asController = "kube-controller-manager"
	asScheduler  = "kube-scheduler"
	asKubelet    = "kubelet"
)
