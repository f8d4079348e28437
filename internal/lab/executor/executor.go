// Package executor plays the part of openstack-operator, of Kubernetes' Job controller, scheduler, kubelet and garbage
// collector for one namespace of the embedded control plane, where none of them runs.
package executor

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
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
}

// New makes an executor. It does nothing until it is told to.
func New(options Options) *Executor {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	return &Executor{options: options}
}

var errNotYet = errors.New("not written yet")

// SyncNodeSet brings the NodeSet's inventory Secret and status up to its spec and its Deployments. The inventory stays
// as it is while a Deployment of the NodeSet runs.
func (e *Executor) SyncNodeSet(ctx context.Context, name string) error { return errNotYet }

// Start begins a Deployment: the Jobs of the first service of every NodeSet are there and their pods running, with the
// Secrets mounted as they are at that moment.
func (e *Executor) Start(ctx context.Context, deployment string) error { return errNotYet }

// Finish ends the running pods of a started Deployment with the outcome and goes through its remaining services with
// the same outcome, to its end.
func (e *Executor) Finish(ctx context.Context, deployment string, outcome Outcome) error {
	return errNotYet
}

// Run starts a Deployment and goes through it to its end. Each Job gets one pod per attempt; each fails or succeeds as
// its attempt says, and the first that succeeds is the last.
func (e *Executor) Run(ctx context.Context, deployment string, attempts []Outcome) error {
	return errNotYet
}

// CollectGarbage deletes the objects whose owner is gone.
func (e *Executor) CollectGarbage(ctx context.Context) error { return errNotYet }
