package next

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// TestApply: the API server takes what is printed, without an unknown field, and runs just that; a second time it refuses.
func TestApply(t *testing.T) {
	c := testplane.Client(t)
	for name, story := range map[string]*reporttest.Story{
		"drifted": reporttest.Drifted(), "partial": reporttest.Partial(), "unknown": reporttest.Unknown(), "large": reporttest.Large(3000, 4),
	} {
		namespace := testplane.Namespace(t)
		plan, err := report.Build(story.Evidence()).Next(report.NextOptions{Batch: report.Batch{Percent: 50}})
		if err != nil || len(plan.Manifests) == 0 {
			t.Fatal(name, err)
		}
		text, err := plan.YAML()
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(strings.ReplaceAll(text, "namespace: "+reporttest.Namespace, "namespace: "+namespace), "---\n")
		created := 0
		for _, document := range documents {
			var object unstructured.Unstructured
			if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, document)
			}
			if len(object.Object) == 0 {
				continue // comments alone
			}
			if err := c.Create(t.Context(), object.DeepCopy(), client.FieldValidation("Strict")); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := c.Create(t.Context(), &object); !apierrors.IsAlreadyExists(err) {
				t.Errorf("%s: a second time: %v", name, err)
			}
			created++
		}
		var have dataplanev1.OpenStackDataPlaneDeploymentList
		if err := c.List(t.Context(), &have, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		if created != len(plan.Manifests) || len(have.Items) != created {
			t.Errorf("%s: %d Deployments are planned, %d are there", name, len(plan.Manifests), len(have.Items))
		}
		for _, m := range plan.Manifests {
			for _, d := range have.Items {
				if d.Name == m.Name && (d.Spec.AnsibleLimit != m.Limit || strings.Join(d.Spec.ServicesOverride, " ") != strings.Join(m.Services, " ") ||
					strings.Join(d.Spec.NodeSets, " ") != strings.Join(m.NodeSets, " ")) {
					t.Errorf("%s: %s became %+v", name, m.Name, d.Spec)
				}
			}
		}
	}
}
