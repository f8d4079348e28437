package report_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

// TestBundleSaysTheSame: a report made from a bundle is the report of the cluster.
func TestBundleSaysTheSame(t *testing.T) {
	for name, state := range states {
		if name == "unknown" {
			continue // its damaged record is left out, which the report says in other words
		}
		e := state.story.Evidence()
		text, err := report.MarshalBundle(e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := report.ReadBundle(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		asJSON, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, err := report.ReadBundle(asJSON)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := show(t, report.Build(e))
		for _, got := range []string{show(t, report.Build(back)), show(t, report.Build(fromJSON))} {
			if got != want {
				t.Errorf("%s: the bundle says\n%s\nthe cluster\n%s", name, got, want)
			}
		}
	}
}

func show(t *testing.T, value any) string {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allowed are the fields of the evidence that may leave the cluster, as paths of Go names below Namespaces. A path that
// ends in a star stands for all below it.
var allowed = []string{
	"Name", "Secrets*", "Unread*",
	"Guards.Spec*", "Holds.Spec*", "Holds.Status*", "Overrides.Spec*", "Attestations.Spec*",
	"NodeSets.Rollout.Status*",
	"NodeSets.NodeSet.Spec.Services", "NodeSets.NodeSet.Spec.Nodes.key", "NodeSets.NodeSet.Spec.Nodes.HostName",
	"NodeSets.NodeSet.Status.SecretHashes*", "NodeSets.NodeSet.Status.SecretDeployment*",
	"Deployments.Spec.NodeSets", "Deployments.Spec.ServicesOverride", "Deployments.Spec.AnsibleLimit", "Deployments.Spec.AnsibleTags", "Deployments.Spec.AnsibleSkipTags",
	"Deployments.Status.Conditions.Type", "Deployments.Status.Conditions.Status", "Deployments.Status.Conditions.Reason", "Deployments.Status.Conditions.Severity",
	"Services.Spec.DataSources*", "Services.Spec.EDPMServiceType",
}

// allowedMeta are the fields of every object's metadata that may.
var allowedMeta = []string{"Name", "Namespace", "UID", "ResourceVersion", "Labels.key", "Labels.value"}

func isAllowed(path string) bool {
	path = strings.TrimPrefix(path, "Namespaces.")
	if path == "Program" || path == "Server" {
		return true
	}
	if _, field, isMeta := strings.Cut(path, ".ObjectMeta."); isMeta {
		return slices.Contains(allowedMeta, field)
	}
	return slices.ContainsFunc(allowed, func(pattern string) bool {
		prefix, whole := strings.CutSuffix(pattern, "*")
		return path == pattern || whole && (path == prefix || strings.HasPrefix(path, prefix+"."))
	})
}

// filler puts a marker of its own into every text that it finds.
type filler struct {
	paths map[string]string
}

func (f *filler) marker(path string) string {
	marker := fmt.Sprintf("marker-%d-x", len(f.paths))
	f.paths[marker] = path
	return marker
}

func (f *filler) fill(v reflect.Value, path string, depth int) {
	if depth > 14 {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(reporttest.Start))
		return
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.NewTime(reporttest.Start)))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`"` + f.marker(path) + `"`))
		return
	}
	switch v.Kind() { //nolint:exhaustive // the default names what is missing
	case reflect.String:
		v.SetString(f.marker(path))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(f.marker(path)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(v.Index(i), path, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		suffix := ""
		if value.Kind() == reflect.String {
			suffix = ".value"
		}
		f.fill(key, path+".key", depth+1)
		f.fill(value, path+suffix, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.fill(v.Field(i), strings.TrimPrefix(path+"."+field.Name, "."), depth+1)
			}
		}
	default:
	}
}

// TestBundleKeepsWhatIsAllowed: of an evidence that is full of markers, only those in allowed fields are in the bundle.
func TestBundleKeepsWhatIsAllowed(t *testing.T) {
	f := filler{paths: map[string]string{}}
	var e report.Evidence
	f.fill(reflect.ValueOf(&e).Elem(), "", 0)
	e.TypeMeta = metav1.TypeMeta{}
	text, err := report.MarshalBundle(e)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.paths) < 400 {
		t.Fatalf("there are only %d markers", len(f.paths))
	}
	arrived := map[string]bool{}
	for marker, path := range f.paths {
		if strings.Contains(string(text), marker) {
			arrived[path] = true
			if !isAllowed(path) {
				t.Errorf("%s is in the bundle", path)
			}
		}
	}
	for _, path := range []string{"Namespaces.Holds.Status.Message", "Namespaces.NodeSets.NodeSet.Spec.Nodes.HostName", "Namespaces.Services.Spec.DataSources.SecretRef.Name"} {
		if !arrived[path] {
			t.Errorf("%s is not in the bundle", path)
		}
	}
}

// TestBundleLeavesRecordsBehind: what somebody wrote into a record, or beside it, stays there, and so does a limit that is
// more than one.
func TestBundleLeavesRecordsBehind(t *testing.T) {
	const marker = "rabbit://user7:hunter2@"
	e := reporttest.Partial().Evidence()
	namespace := &e.Namespaces[0]
	namespace.NodeSets[0].Record["-7"] = map[string]string{"_runs": marker}
	namespace.NodeSets[1].Record[""]["note"] = marker
	namespace.Deployments[0].Spec.AnsibleLimit = "compute-0 -e url=" + marker
	text, err := report.MarshalBundle(e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Error("the bundle has what somebody wrote into the record")
	}
	back, err := report.ReadBundle(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Namespaces[0].NodeSets[0].Record) == 0 || len(back.Namespaces[0].NodeSets[1].Record) != 0 {
		t.Error("the whole record is not in the bundle, or the changed one is")
	}
	if len(back.Namespaces[0].Unread) != 1 || !back.Namespaces[0].Unread[0].Needed {
		t.Errorf("the bundle does not say that the changed record is missing: %v", back.Namespaces[0].Unread)
	}
}

// judgedLikeTheBooks gives the holds of a story the verdicts that the operator would give.
func judgedLikeTheBooks(story *reporttest.Story) report.Evidence {
	e := story.Evidence()
	for _, one := range report.Verify(e).Credentials {
		for i := range e.Namespaces[0].Holds {
			hold := &e.Namespaces[0].Holds[i]
			if hold.Spec.Credential.Name == one.Name {
				s := &hold.Status
				s.Verdict, s.Reason, s.Message = rotationv1.HoldVerdict(one.Found.Verdict), one.Found.Reason, one.Found.Message
				s.AffectedNodes, s.UnknownNodes, s.AttestedNodes = int32(one.Found.Affected), int32(one.Found.Unknown), int32(one.Found.Gone)
				s.Nodes, s.NodeSets = one.Found.Nodes, one.Found.NodeSets
			}
		}
	}
	return e
}

// TestVerify: verdicts that follow from the evidence are equal, also read back from a file; each change is found.
func TestVerify(t *testing.T) {
	for name, state := range states {
		e := judgedLikeTheBooks(state.story)
		text, err := report.MarshalBundle(e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := report.ReadBundle(text)
		if err != nil {
			t.Fatal(err)
		}
		if v := report.Verify(back); !v.Equal || len(v.Credentials) == 0 {
			t.Errorf("%s: %s", name, show(t, v))
		}
	}
	changes := map[string]func(*rotationv1.CredentialHoldStatus){
		"verdict":           func(s *rotationv1.CredentialHoldStatus) { s.Verdict = rotationv1.VerdictSafe },
		"reason":            func(s *rotationv1.CredentialHoldStatus) { s.Reason = "Safe" },
		"affectedNodes":     func(s *rotationv1.CredentialHoldStatus) { s.AffectedNodes++ },
		"unknownNodes":      func(s *rotationv1.CredentialHoldStatus) { s.UnknownNodes++ },
		"attestedNodes":     func(s *rotationv1.CredentialHoldStatus) { s.AttestedNodes++ },
		"node compute-0":    func(s *rotationv1.CredentialHoldStatus) { s.Nodes = []string{"compute-0", "+3 more"} },
		"NodeSet elsewhere": func(s *rotationv1.CredentialHoldStatus) { s.NodeSets = []string{"elsewhere"} },
	}
	for want, change := range changes {
		e := judgedLikeTheBooks(reporttest.Partial())
		change(&e.Namespaces[0].Holds[0].Status)
		v := report.Verify(e)
		if v.Equal || len(v.Credentials[0].Differences) == 0 || !strings.HasPrefix(v.Credentials[0].Differences[0], want) {
			t.Errorf("%s changed: %s", want, show(t, v))
		}
	}
}

// TestVerifyFinds: what is recomputed is what was recorded in the states, where their holds say what the operator would.
func TestVerifyFinds(t *testing.T) {
	for name, state := range states {
		if name == "unjudged" || name == "unseen" || name == "retried" {
			continue // there the holds say what the books do not
		}
		for _, one := range report.Verify(state.story.Evidence()).Credentials {
			if got := one.Found.Verdict + " " + one.Found.Reason + " "; one.Name == "user7" && !strings.HasPrefix(state.user7, got) {
				t.Errorf("%s: found %s, want %s", name, got, state.user7)
			}
		}
	}
}

// TestVerifyKnowsMargins: right after a rotation a kubelet may serve the older content, for a time that is in no evidence.
func TestVerifyKnowsMargins(t *testing.T) {
	for seconds, want := range map[int]bool{5: true, 15: false} {
		s := reporttest.Healthy().At(73*hour).Write(reporttest.NovaConfig, "user8").At(73*hour + time.Duration(seconds)*time.Second)
		e := s.Evidence()
		v := report.Verify(e)
		i := slices.IndexFunc(v.Credentials, func(c report.Verified) bool { return c.Name == "user7" })
		differs := slices.Contains(v.Credentials[i].Differences, "reason is StillInCluster in the hold, NodesBehind by the evidence")
		if differs == want {
			t.Errorf("%d seconds after the rotation: %s", seconds, show(t, v))
		}
	}
}

// TestVerifyKnowsStops: what an operator took back when it stopped is no judgement that could be right or wrong.
func TestVerifyKnowsStops(t *testing.T) {
	e := reporttest.Done().Evidence()
	for i := range e.Namespaces[0].Holds {
		status := &e.Namespaces[0].Holds[i].Status
		status.Verdict, status.Reason = rotationv1.VerdictUnknown, rotationv1.ReasonOperatorStopped
	}
	if v := report.Verify(e); v.Judged() != 0 || len(v.Credentials) == 0 || v.Credentials[0].Found.Verdict == "" {
		t.Error(show(t, v))
	}
}

// TestVerifyAdopts: where an object goes with all that it ever named, what belongs to no other object is its own.
func TestVerifyAdopts(t *testing.T) {
	s := reporttest.Healthy()
	s.Guard.Spec.Credential.Generations = rotationv1.GenerationsAll
	e := s.Evidence()
	found := func() string {
		for _, one := range report.Verify(e).Credentials {
			if one.Name == "user6" {
				return one.Found.Reason
			}
		}
		return ""
	}
	if got := found(); got != "Safe" {
		t.Errorf("beside the object of user7, user6 is %s", got)
	}
	e.Namespaces[0].Holds = slices.DeleteFunc(e.Namespaces[0].Holds, func(h rotationv1.CredentialHold) bool { return h.Spec.Credential.Name == "user7" })
	if got := found(); got != "StillInCluster" {
		t.Errorf("with user7 as its own, user6 is %s", got)
	}
}

// TestVerifyNeedsVerdicts: nothing to compare is not equal.
func TestVerifyNeedsVerdicts(t *testing.T) {
	if v := report.Verify(reporttest.Unjudged().Evidence()); v.Equal || len(v.Notes) == 0 {
		t.Errorf("without verdicts: %s", show(t, v))
	}
	e := judgedLikeTheBooks(reporttest.Partial())
	e.Namespaces[0].Guards = nil
	if v := report.Verify(e); v.Equal {
		t.Error("verdicts of a guard that is not there are equal")
	}
	e = judgedLikeTheBooks(reporttest.Done())
	e.Namespaces[0].NodeSets[0].Record = nil
	if v := report.Verify(e); v.Equal {
		t.Error("without the record of a NodeSet a credential may go")
	}
}

// TestReadBundleRefuses: what is no bundle, or has more than is known, is an error.
func TestReadBundleRefuses(t *testing.T) {
	whole, err := report.MarshalBundle(reporttest.Healthy().Evidence())
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"empty":         " \n",
		"no evidence":   "{",
		"is a \"Pod\"":  "apiVersion: v1\nkind: Pod\n",
		"program knows": string(whole) + "more: true\n",
	} {
		if _, err := report.ReadBundle([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
