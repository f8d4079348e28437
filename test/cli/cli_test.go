// Package cli tries the kubectl plugin on a real API server with the real operator.
package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/cli"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

func TestMain(m *testing.M) { testplane.MainWithPolicies(m) }

// patience bounds how long one thing is waited for; a test that passes does not use it up.
const patience = time.Minute

// story is a namespace with the operator in it.
type story struct {
	t   *testing.T
	bed *testbed.Testbed
	c   client.Client
}

func newStory(t *testing.T) *story {
	t.Helper()
	manager := filepath.Join(t.TempDir(), "manager")
	if out, err := exec.Command("go", "build", "-o", manager, "../../cmd/manager").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	t.Setenv("HOME", t.TempDir()) // where kubectl's cache of what is served goes; Go's cache stays
	bed, err := testbed.New(t.Context(), testbed.Options{
		ControlPlane: testplane.Plane(t), Namespace: "cli-", Manager: manager, Dir: t.TempDir(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Close)
	s := &story{t: t, bed: bed, c: testplane.Client(t)}
	s.must(bed.StartOperator(t.Context()))
	return s
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) write(user string) {
	s.t.Helper()
	_, err := s.bed.SetSecret(s.t.Context(), "nova-cell1-compute-config", map[string]string{
		"01-nova.conf": "[DEFAULT]\ntransport_url=rabbit://" + user + ":sesame@rabbitmq:5671/\n"})
	s.must(err)
}

func (s *story) deploy(name, limit string) {
	s.t.Helper()
	s.must(s.bed.Deploy(s.t.Context(), testbed.Deployment{Name: name, NodeSets: []string{"edpm"}, Limit: limit}, []executor.Outcome{{Succeeded: true}}))
}

// held waits until the operator says that.
func (s *story) held(user, reason string) {
	s.t.Helper()
	_, left, err := s.bed.AwaitHold(s.t.Context(), "rabbitmquser", user, func(status rotationv1.CredentialHoldStatus) []string {
		if status.Reason != reason {
			return []string{user + " is " + status.Reason}
		}
		return nil
	})
	s.must(err)
	if len(left) > 0 {
		s.t.Fatal(left)
	}
}

// begin brings user7 to two nodes, and rotates to user8.
func (s *story) begin() {
	s.t.Helper()
	ctx := s.t.Context()
	s.write("user7")
	s.must(s.bed.CreateService(ctx, "nova", []string{"nova-cell1-compute-config"}, "", false))
	s.must(s.bed.CreateNodeSet(ctx, "edpm", []string{"compute-0", "compute-1"}, []string{"nova"}))
	s.must(s.bed.CreateGuard(ctx, "rabbitmquser"))
	for _, user := range []string{"user7", "user8"} {
		s.must(s.bed.CreateCredential(ctx, "rabbitmquser", user))
	}
	s.deploy("initial", "")
	s.held("user7", "StillInCluster")
	s.write("user8")
	s.held("user7", "NodesBehind")
}

// rules let somebody read everything but what is left out.
func rules(without string) []rbacv1.PolicyRule {
	all := []rbacv1.PolicyRule{}
	for group, resources := range map[string][]string{
		"dataplane.openstack.org": {"openstackdataplanenodesets", "openstackdataplanedeployments", "openstackdataplaneservices"},
		"rotation.openstack.org":  {"secretrollouts", "credentialguards", "credentialholds", "credentialoverrides", "nodeattestations"},
		"":                        {"secrets", "configmaps"},
	} {
		for _, resource := range resources {
			if resource != without {
				all = append(all, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", "list"}})
			}
		}
	}
	return all
}

// person gives a kubeconfig of somebody with those rights in the namespace.
func (s *story) person(name string, rules ...rbacv1.PolicyRule) string {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: s.bed.Namespace(), Name: name}
	s.must(s.c.Create(s.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}))
	s.must(s.c.Create(s.t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}))
	kubeconfig, _, err := testplane.Plane(s.t).Kubeconfig(name)
	s.must(err)
	return kubeconfig
}

// run executes a command line; it has to end with that code, and what it prints to have each of the words.
func (s *story) run(kubeconfig string, code int, line string, words ...string) string {
	s.t.Helper()
	return run(s.t, append(strings.Fields(line), "--kubeconfig", kubeconfig, "-n", s.bed.Namespace()), code, words...)
}

func run(t *testing.T, args []string, code int, words ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	got := cli.Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, args)
	text := out.String() + errOut.String()
	if got != code {
		t.Errorf("%s: exit %d, want %d:\n%s", strings.Join(args, " "), got, code, text)
	}
	for _, word := range words {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), word) {
			t.Errorf("%s: does not say %q:\n%s", strings.Join(args, " "), word, text)
		}
	}
	return out.String()
}

// TestRotation goes through a rotation as an administrator does.
func TestRotation(t *testing.T) {
	s := newStory(t)
	s.begin()
	alice := s.person("alice", append(rules(""),
		rbacv1.PolicyRule{APIGroups: []string{"rotation.openstack.org"}, Resources: []string{"secretrollouts"}, Verbs: []string{"attest"}},
		rbacv1.PolicyRule{APIGroups: []string{"rotation.openstack.org"}, Resources: []string{"nodeattestations", "credentialoverrides"}, Verbs: []string{"create"}})...)

	s.run(alice, cli.Holds, "status", "edpm 2 0 2 0", "nova-cell1-compute-config 0/2", "RabbitMQUser/user7 no 2")
	s.run(alice, cli.Holds, "nodes edpm", "compute-0 Behind nova-cell1-compute-config user7")
	s.run(alice, cli.Holds, "who-uses user7", "compute-[0-1]", "surely")
	for _, name := range []string{"rabbitmquser/user7", "rabbitmqusers/user7", "RabbitMQUser/user7", "rmquser/user7", "rabbitmqusers.rabbitmq.openstack.org/user7"} {
		s.run(alice, cli.HoldsNot, "can-delete "+name, "NO: RabbitMQUser/user7 must not be deleted (NodesBehind)")
	}
	s.run(alice, cli.HoldsNot, "why-not rabbitmquser/user7", "kubectl rotation next edpm -n "+s.bed.Namespace())
	s.run(alice, cli.Failed, "can-delete rabbitmquser/user77", "did you mean rabbitmquser/user7")
	s.run(alice, cli.TimedOut, "wait --for updated edpm --timeout 1s", "0 of 2 nodes updated")
	s.run(alice, cli.Holds, "next edpm", "kind: OpenStackDataPlaneDeployment")
	s.run(alice, cli.Misused, "status --outputs")
	s.run(alice, cli.Failed, "status -A", "name one with -n")
	s.words(alice)

	s.deploy("rest", "")
	s.run(alice, cli.Holds, "wait --for safe rabbitmquser/user7 --timeout 60s --every 50ms", "may be deleted")
	s.run(alice, cli.Holds, "wait --for updated edpm --timeout 60s", "all 2 nodes updated")
	s.run(alice, cli.Holds, "can-delete rabbitmquser/user7", "YES")
	s.run(alice, cli.HoldsNot, "can-delete rabbitmquser/user8", "StillInCluster")
	s.run(alice, cli.Holds, "history edpm", "rest nova user8")

	bundle := filepath.Join(t.TempDir(), "bundle.yaml")
	s.must(os.WriteFile(bundle, []byte(s.run(alice, cli.Holds, "report")), 0o600))
	if text, err := os.ReadFile(bundle); err != nil || bytes.Contains(text, []byte("sesame")) || !bytes.Contains(text, []byte("user7")) {
		t.Errorf("a bundle has names and no passwords: %v\n%s", err, text)
	}
	s.run(alice, cli.Holds, "verify "+bundle, "verdicts follow from the evidence")
}

// words tries what people may say: nothing is written in a dry run, and only those may speak who have the right.
func (s *story) words(alice string) {
	s.t.Helper()
	args := []string{"attest", "edpm/compute-1", "--reason", "scrapped, ticket 4711", "--for", "1h", "--kubeconfig", alice, "-n", s.bed.Namespace()}
	run(s.t, append(args, "--dry-run"), cli.Holds, "Would be written down", "by alice")
	var all rotationv1.NodeAttestationList
	s.must(s.c.List(s.t.Context(), &all, client.InNamespace(s.bed.Namespace())))
	if len(all.Items) != 0 {
		s.t.Errorf("a dry run wrote %v", all.Items)
	}
	s.run(alice, cli.Failed, "attest edpm/compute-7 --reason gone-for-good", "did you mean edpm/compute-0 or edpm/compute-1")
	s.run(alice, cli.Failed, "override rabbitmquser/user7 --reason because", "you may not say that", "override credentialholds")
	s.run(alice, cli.Misused, "attest edpm/compute-1 --reason no", "--reason must have")
	run(s.t, args, cli.Holds, "Written down: compute-1 of NodeSet edpm: gone, by alice", "To take it back: kubectl")
	s.must(s.c.List(s.t.Context(), &all, client.InNamespace(s.bed.Namespace())))
	if len(all.Items) != 1 || all.Items[0].Spec.By != "alice" || all.Items[0].Spec.Nodes[0] != "compute-1" {
		s.t.Errorf("the word is %+v", all.Items)
	}
	for i := range all.Items {
		s.must(s.c.Delete(s.t.Context(), &all.Items[i]))
	}
}

// TestRights: what somebody may not read makes the answer unknown, never a yes.
func TestRights(t *testing.T) {
	s := newStory(t)
	s.begin()
	s.deploy("rest", "")
	s.held("user7", "Safe")
	all := s.person("all", rules("")...)
	s.run(all, cli.Holds, "can-delete rabbitmquser/user7", "YES")
	nobody := s.person("nobody")
	s.run(nobody, cli.NotKnown, "status", "Nothing can be told", "OpenStackDataPlaneNodeSets cannot be read: you may not list them")
	s.run(nobody, cli.NotKnown, "can-delete rabbitmquser/user7", "cannot be read")
	for _, without := range []string{"configmaps", "openstackdataplanenodesets", "openstackdataplanedeployments", "openstackdataplaneservices",
		"credentialguards", "credentialholds", "credentialoverrides", "nodeattestations"} {
		somebody := s.person("without-"+without, rules(without)...)
		s.run(somebody, cli.NotKnown, "can-delete rabbitmquser/user7", "cannot be read")
		s.run(somebody, cli.NotKnown, "status", "cannot be read")
	}
	s.run(s.person("without-secrets", rules("secrets")...), cli.Holds, "status", "Secrets cannot be read", "is not noticed")

	admin, _, err := testplane.Plane(t).Kubeconfig("root", "system:masters")
	s.must(err)
	s.run(admin, cli.Holds, "doctor -o wide", "words.rotation.openstack.org", "CredentialHold: is served", "you: override credentialholds", "NodeSet edpm: the operator has looked at it")
	s.run(admin, cli.Holds, "status -A", s.bed.Namespace())
	s.run(nobody, cli.NotKnown, "doctor", "you may not get ValidatingAdmissionPolicy objects", "Ask for the right to list")
}

// TestOlderServer: what an API server lacks that is no harm is remarked, and nothing more.
func TestOlderServer(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	plane, err := testbed.StartControlPlane(t.Context(), controlplane.Options{Binaries: testplane.Plane(t).Binaries(), Emulate: "1.33"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig, _, err := plane.Kubeconfig("root", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, []string{"doctor", "--kubeconfig", kubeconfig}, cli.Holds, "credentials.rotation.openstack.org: MutatingAdmissionPolicy is not served by this API server")
	if strings.Contains(out, "Bad") || strings.Contains(out, "Unknown") {
		t.Errorf("something is bad:\n%s", out)
	}
}

// TestCompletion: kubectl's own completion finds ours, by the script that is installed beside the program.
func TestCompletion(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "kubectl-rotation"), "../../cmd/kubectl-rotation").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, out)
	}
	s := newStory(t)
	s.begin()
	admin, _, err := testplane.Plane(t).Kubeconfig("root", "system:masters")
	s.must(err)
	script, err := os.ReadFile("../../hack/kubectl_complete-rotation")
	s.must(err)
	s.must(os.WriteFile(filepath.Join(bin, "kubectl_complete-rotation"), script, 0o700))
	t.Setenv("PATH", bin+":"+testplane.Plane(t).Binaries()+":"+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", admin)
	for begun, want := range map[string]string{
		"can-delete rabbitmquser/": "rabbitmquser/user7",
		"attest edpm/":             "edpm/compute-1",
		"status ":                  "edpm",
		"-n " + s.bed.Namespace() + " why-not ra": "rabbitmquser/user8",
		"can": "can-delete",
	} {
		args := append([]string{"__complete", "rotation", "-n", s.bed.Namespace()}, strings.Split(begun, " ")...)
		out, err := exec.Command("kubectl", args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("kubectl %s: %v, no %s in\n%s", strings.Join(args, " "), err, want, out)
		}
	}
}

// TestNotInstalled: an API server without our kinds, or without anybody's, is told about in words.
func TestNotInstalled(t *testing.T) {
	binaries := testplane.Plane(t).Binaries()
	t.Setenv("HOME", t.TempDir())
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig, _, err := plane.Kubeconfig("root", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"status", "can-delete rabbitmquser/user7", "next", "status -A"} {
		run(t, append(strings.Fields(line), "--kubeconfig", kubeconfig), cli.Failed,
			"openstack-operator is not installed here", "the rotation operator is not installed here", "kubectl apply --server-side -f config/crd")
	}
	run(t, []string{"doctor", "--kubeconfig", kubeconfig}, cli.HoldsNot, "Bad", "CredentialHold: is not served", "holds.rotation.openstack.org: there is no such")
	run(t, []string{"status", "--kubeconfig", filepath.Join(t.TempDir(), "none")}, cli.Failed, "Error:")
}
