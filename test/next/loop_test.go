package next

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/cli"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// fleetAtWork is a namespace with the real operator, real Ansible, and the plugin's command lines.
type fleetAtWork struct {
	*testing.T
	bed        *testbed.Testbed
	kubeconfig string
}

func newFleetAtWork(t *testing.T) fleetAtWork {
	startAnsible(t) // or the test is skipped
	manager := filepath.Join(t.TempDir(), "manager")
	if out, err := exec.Command("go", "build", "-o", manager, "../../cmd/manager").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	plane := testplane.Plane(t)
	bed, err := testbed.New(t.Context(), testbed.Options{
		ControlPlane: plane, Namespace: "next-", Manager: manager, Ansible: true, Dir: t.TempDir(), Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Close)
	kubeconfig, _, err := plane.Kubeconfig("next", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return fleetAtWork{t, bed, kubeconfig}
}

// ok fails the test where a step of the fleet's did.
func (f fleetAtWork) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// run is a command line of the plugin, after the operator has taken everything in.
func (f fleetAtWork) run(want int, args ...string) string {
	f.Helper()
	f.ok(f.bed.CatchUp(f.Context()))
	var out, errOut bytes.Buffer
	args = append(args, "--kubeconfig", f.kubeconfig, "-n", f.bed.Namespace())
	if got := cli.Run(f.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, args); got != want {
		f.Fatalf("%v: exit %d, want %d\n%s%s", args, got, want, out.String(), errOut.String())
	}
	return out.String()
}

func (f fleetAtWork) rotate(user string) {
	f.Helper()
	_, err := f.bed.SetSecret(f.Context(), reporttest.NovaConfig, map[string]string{"01-nova.conf": "[DEFAULT]\ntransport_url=rabbit://" + user + ":pw@rabbitmq:5671/"})
	f.ok(err)
}

func (f fleetAtWork) deploy(d testbed.Deployment) {
	f.Helper()
	f.ok(f.bed.Deploy(f.Context(), d, []executor.Outcome{{Succeeded: true}}))
}

// apply lets kubectl check what was printed, and carries it out.
func (f fleetAtWork) apply(text string) (limits []string) {
	f.Helper()
	kubectl := exec.Command(filepath.Join(testplane.Plane(f.T).Binaries(), "kubectl"), "--kubeconfig", f.kubeconfig, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
	kubectl.Stdin = strings.NewReader(text)
	if out, err := kubectl.CombinedOutput(); err != nil {
		f.Fatalf("kubectl apply: %v\n%s\n%s", err, out, text)
	}
	for document := range strings.SplitSeq(text, "---\n") {
		var d struct {
			Metadata struct{ Name string }
			Spec     struct {
				NodeSets         []string
				ServicesOverride []string
				AnsibleLimit     string
			}
		}
		f.ok(yaml.Unmarshal([]byte(document), &d))
		if d.Metadata.Name != "" {
			limits = append(limits, fmt.Sprint(d.Spec.NodeSets, d.Spec.ServicesOverride, " ", d.Spec.AnsibleLimit))
			f.deploy(testbed.Deployment{Name: d.Metadata.Name, NodeSets: d.Spec.NodeSets, Services: d.Spec.ServicesOverride, Limit: d.Spec.AnsibleLimit})
		}
	}
	return limits
}

// TestLoop: after a rotation, what next prints and kubectl applies brings the rest up to date, until nothing is left; what
// was simulated before is what happens, and every verdict follows from the evidence.
func TestLoop(t *testing.T) {
	f := newFleetAtWork(t)
	f.ok(f.bed.StartOperator(t.Context()))
	f.ok(f.bed.CreateGuard(t.Context(), "rabbitmquser"))
	f.rotate("user7")
	f.ok(f.bed.CreateService(t.Context(), "nova", []string{reporttest.NovaConfig}, "", false))
	f.ok(f.bed.CreateNodeSet(t.Context(), "edpm", []string{"compute-0", "compute-1", "compute-10"}, []string{"nova"}))
	f.ok(f.bed.CreateNodeSet(t.Context(), "edge", []string{"edge-0"}, []string{"nova"}))
	f.ok(f.bed.CreateCredential(t.Context(), "rabbitmquser", "user7"))
	f.deploy(testbed.Deployment{Name: "initial", NodeSets: []string{"edge", "edpm"}})
	simulated := f.run(0, "simulate", "--rotate", reporttest.NovaConfig, "--identity", "user8", "--limit", "compute-0", "-o", "jsonpath={.stages[2].updated} {.stages[2].credentials[?(@.identity==\"user7\")].nodes[*].node}")
	f.rotate("user8")
	f.deploy(testbed.Deployment{Name: "first", NodeSets: []string{"edpm"}, Limit: "compute-0"})
	if want := "1 edge-0 compute-1 compute-10"; strings.TrimSpace(simulated) != want {
		t.Errorf("the simulation says %q, want %q", simulated, want)
	}
	f.verified("Held")

	text := f.run(0, "next", "--batch", "2")
	limits := f.apply(text)
	if got, want := strings.Join(limits, " | "), "[edge edpm] [nova] compute-1,edge-0 | [edpm] [nova] compute-10"; got != want {
		t.Errorf("next plans %s, want %s", got, want)
	}
	if left := f.run(0, "next"); !strings.HasPrefix(left, "# Nothing is left to deploy") {
		t.Errorf("after that is left:\n%s", left)
	}
	f.verified("Safe")
}

// verified waits for a verdict on user7 and recomputes it from a bundle.
func (f fleetAtWork) verified(want string) {
	f.Helper()
	_, left, err := f.bed.AwaitHold(f.Context(), "rabbitmquser", "user7", func(s rotationv1.CredentialHoldStatus) []string {
		if string(s.Verdict) != want || s.Reason == "StillInCluster" {
			return []string{fmt.Sprintf("user7 is %s, %s", s.Verdict, s.Reason)}
		}
		return nil
	})
	f.ok(err)
	if len(left) > 0 {
		f.Fatal(left)
	}
	bundle := filepath.Join(f.TempDir(), "bundle.yaml")
	f.ok(os.WriteFile(bundle, []byte(f.run(0, "report")), 0o600))
	if text, err := os.ReadFile(bundle); err != nil || bytes.Contains(text, []byte("rabbit://")) || bytes.Contains(text, []byte(":pw@")) {
		f.Errorf("the bundle has the content of a Secret, or cannot be read: %v", err)
	}
	if out := f.run(0, "verify", bundle); !strings.Contains(out, want) {
		f.Errorf("verify says\n%s", out)
	}
}
