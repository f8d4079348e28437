// Package demo plays the five stages of a rotation on a real API server and prints what the cluster shows after each.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

// Options say how the demo runs.
type Options struct {
	// Manager is the path of the operator's program; without it the one next to the running program is taken.
	Manager string
	// Port is where the API server listens; 0 picks a free one.
	Port int
	// Stay leaves everything running after the last stage, until the context ends.
	Stay bool
	// Timeout bounds how long one thing is waited for.
	Timeout time.Duration
}

// Names of what the demo creates.
const (
	namespace = "openstack"
	secret    = "nova-cell1-compute-config"
	service   = "nova"
	key       = "01-nova.conf"
	first     = "edpm"
	second    = "edpm-b"
	guard     = "rabbitmquser"
	oldUser   = "user7"
	newUser   = "user8"
)

// demo is one run of the demo.
type demo struct {
	out     io.Writer
	ansible bool
	bed     *testbed.Testbed
	// programs is the directory of the project's programs.
	programs string
	// versions are those that the Secret has had, by the name that is printed.
	versions map[fleet.Version]string
}

// Run plays the demo. Everything that it started has ended when it returns.
func Run(ctx context.Context, options Options, out io.Writer) error {
	manager, err := testbed.FindManager(options.Manager)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rotation-demo-")
	if err != nil {
		return fmt.Errorf("no directory for nodes and logs: %w", err)
	}
	defer os.RemoveAll(dir)
	d := &demo{out: out, versions: map[fleet.Version]string{}, programs: filepath.Dir(manager)}
	ansible := d.findAnsible()

	began := time.Now()
	d.say("starting     kube-apiserver and etcd on loopback")
	plane, err := testbed.StartControlPlane(ctx, controlplane.Options{Port: options.Port})
	if err != nil {
		return err
	}
	defer plane.Stop() //nolint:errcheck // all that could be left is a temporary directory
	kubeconfig, config, err := plane.Kubeconfig("demo", "system:masters")
	if err != nil {
		return err
	}
	d.say("API server   %s, ready after %s", config.Host, since(began))
	d.bed, err = testbed.New(ctx, testbed.Options{
		ControlPlane: plane, Namespace: namespace, Manager: manager, Ansible: d.ansible, Dir: dir, Timeout: options.Timeout,
	})
	if err != nil {
		return err
	}
	defer d.bed.Close()
	if err := d.bed.StartOperator(ctx); err != nil {
		return err
	}
	d.say("operator     %s", manager)
	d.say("Deployments  %s", ansible)
	if err := d.stages(ctx); err != nil {
		return err
	}
	if !options.Stay {
		return nil
	}
	d.invite(kubeconfig, plane.Binaries())
	return d.linger(ctx, plane)
}

// findAnsible decides how Deployments run, and says it.
func (d *demo) findAnsible() string {
	path, err := exec.LookPath("ansible-playbook")
	if err != nil {
		return "scripted, for ansible-playbook is not installed"
	}
	d.ansible = true
	return "real, with " + path
}

// linger waits for the end, which comes from outside or because something has died.
func (d *demo) linger(ctx context.Context, plane *controlplane.ControlPlane) error {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	failed := make(chan error, 1)
	group.Go(func() {
		err := d.bed.RunNew(ctx, func(deployment string, err error) {
			switch {
			case ctx.Err() != nil:
			case err != nil:
				d.say("  OpenStackDataPlaneDeployment %s does not run: %v", deployment, err)
			default:
				d.say("  OpenStackDataPlaneDeployment %s has run", deployment)
			}
		})
		if ctx.Err() == nil { // else it is the end that was asked for
			failed <- err
		}
	})
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		d.say("\nStopping everything.")
		return nil
	case <-plane.Done():
		return errors.New("the API server has ended by itself")
	case <-d.bed.OperatorDone():
		return d.bed.OperatorDied()
	}
}

func (d *demo) invite(kubeconfig, binaries string) {
	d.say("\nThe control plane is still up; Ctrl-C stops everything. Look around:\n")
	d.say("  export KUBECONFIG=%s", kubeconfig)
	kubectl := "kubectl"
	if _, err := exec.LookPath(kubectl); err != nil {
		if _, err := exec.LookPath(filepath.Join(binaries, kubectl)); err == nil {
			d.say("  export PATH=$PATH:%s", binaries)
		}
	}
	_, err := exec.LookPath(filepath.Join(d.programs, "kubectl-rotation"))
	withPlugin := err == nil
	if withPlugin {
		d.say("  export PATH=$PATH:%s\n", d.programs)
		d.say("  kubectl rotation status -n %s", namespace)
		d.say("  kubectl rotation nodes %s -n %s", first, namespace)
		d.say("  kubectl rotation why-not rabbitmquser/%s -n %s", newUser, namespace)
		d.say("  kubectl rotation dashboard -n %s", namespace)
	}
	d.say("\nRotate once more, and have what you deploy run here:\n")
	d.say("  kubectl -n %s patch secret %s --type merge -p '\n{\"stringData\":{\n\"%s\":\"[DEFAULT]\\ntransport_url=rabbit://user9:pw@rabbitmq:5671/\"}}'", namespace, secret, key)
	if withPlugin {
		d.say("  kubectl rotation next -n %s | kubectl -n %s apply -f -", namespace, namespace)
		d.say("  kubectl rotation wait --for updated %s -n %s", first, namespace)
		d.say("  kubectl rotation wait --for safe rabbitmquser/%s -n %s", newUser, namespace)
		d.say("  kubectl -n %s delete rabbitmquser %s", namespace, newUser)
	}
	d.say("\nWhat stands behind it:\n\n  kubectl -n %s get secretrollouts,credentialholds", namespace)
	d.say("  kubectl -n %s get osdpns -o custom-columns=NAME:.metadata.name,\\\nNODES:.status.secretDeployment.totalNodes,UPDATED:.status.secretDeployment.updatedNodes", namespace)
	d.say("  kubectl -n %s get configmap %s-secret-tracking -o yaml\n", namespace, first)
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func since(began time.Time) string { return fmt.Sprintf("%.1fs", time.Since(began).Seconds()) }

// deploy runs a Deployment of which every host ends well.
func (d *demo) deploy(ctx context.Context, deployment testbed.Deployment) error {
	began := time.Now()
	if err := d.bed.Deploy(ctx, deployment, []executor.Outcome{{Succeeded: true}}); err != nil {
		return err
	}
	limit := ""
	if deployment.Limit != "" {
		limit = " (ansibleLimit " + deployment.Limit + ")"
	}
	d.say("  OpenStackDataPlaneDeployment %s%s has run, %s", deployment.Name, limit, since(began))
	return nil
}
