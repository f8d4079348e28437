package gate

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rotation-operator/rotation-operator/config/rbac"
)

// right is one verb on one resource.
type right struct{ group, resource, verb string }

func (r right) String() string { return strings.Trim(r.verb+" "+r.resource+"."+r.group, ".") }

// idle are rights of which this test cannot tell that they are needed, each with the reason.
var idle = map[string]string{
	"update openstackdataplanedeployments/finalizers.dataplane.openstack.org": "asked for only where OwnerReferencesPermissionEnforcement is on",
	"update openstackdataplanenodesets/finalizers.dataplane.openstack.org":    "asked for only where OwnerReferencesPermissionEnforcement is on",
	"release credentialholds.rotation.openstack.org":                          "asked for by the admission policies, which have tests of their own",
	"patch events.events.k8s.io":                                              "used for an event that repeats itself after minutes",
}

// isIdle tells why nothing can fail without a right, empty where something has to.
func isIdle(r right) string {
	switch {
	case idle[r.String()] != "":
		return idle[r.String()]
	case r.verb == "watch" && r.resource != "pods" && r.resource != "secrets":
		return "without it the cache lists again and again, which is slower and dearer, not wrong"
	case r.verb == "list" && slices.Contains([]string{"credentialguards", "secretrollouts", "openstackdataplaneservices"}, r.resource):
		return "an API server that streams lists needs the right to watch alone; others need both"
	}
	return ""
}

// TestEveryRightIsNeeded takes each right of the operator away in turn: the story fails without it.
func TestEveryRightIsNeeded(t *testing.T) {
	if os.Getenv("ROTATION_DEEP") != "1" {
		t.Skip("takes minutes; `make test-deep` runs it")
	}
	role, err := rbac.Role()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rightsOf(role) {
		t.Run(r.String(), func(t *testing.T) {
			if why := isIdle(r); why != "" {
				t.Skip(why)
			}
			t.Parallel()
			failing := &failing{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				s := newStory(failing)
				const short = 15 * time.Second // what is forbidden never comes
				s.patience = short
				s.without(r)
				operator := start(failing, s.bed.Namespace(), fault{})
				defer operator.end()
				s.tell()
				s.told()
			}()
			<-done
			if failing.why == "" {
				t.Errorf("nothing fails without the right to %s: leave it out of config/rbac/role.yaml, or test what needs it", r)
			}
		})
	}
}

func rightsOf(role *rbacv1.Role) []right {
	var rights []right
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, right{group, resource, verb})
				}
			}
		}
	}
	return rights
}

// without takes a right from the operator in the story's namespace, and waits until the API server denies it.
func (s *story) without(r right) {
	ctx := s.t.Context()
	role, err := rbac.Role()
	s.must(err)
	role.Namespace = s.bed.Namespace()
	var rules []rbacv1.PolicyRule
	for _, one := range rightsOf(role) {
		if one != r {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{one.group}, Resources: []string{one.resource}, Verbs: []string{one.verb}})
		}
	}
	stored := &rbacv1.Role{}
	s.must(s.c.Get(ctx, client.ObjectKeyFromObject(role), stored))
	stored.Rules = rules
	s.must(s.c.Update(ctx, stored))
	resource, sub, _ := strings.Cut(r.resource, "/")
	review := func() *authorizationv1.SubjectAccessReview {
		return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + role.Namespace + ":" + role.Name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: role.Namespace, Group: r.group, Resource: resource, Subresource: sub, Verb: r.verb,
			},
		}}
	}
	s.until("the right is gone", stored, role.Name, func(bool) bool {
		asked := review()
		s.must(s.c.Create(ctx, asked))
		return !asked.Status.Allowed
	})
}

// failing is a test that may fail: it takes down why.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Errorf(format string, args ...any) { f.why = fmt.Sprintf(format, args...) }
func (f *failing) Error(args ...any)                 { f.why = fmt.Sprint(args...) }
func (f *failing) Fatal(args ...any)                 { f.Error(args...); runtime.Goexit() }
func (f *failing) Fatalf(format string, args ...any) { f.Errorf(format, args...); runtime.Goexit() }

// TestIdleRightsExist: nothing is excused that is not asked for.
func TestIdleRightsExist(t *testing.T) {
	role, err := rbac.Role()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range rightsOf(role) {
		all = append(all, r.String())
	}
	for r := range idle {
		if !slices.Contains(all, r) {
			t.Errorf("the operator has no right to %s any more", r)
		}
	}
}
