package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// What comes of a deletion.
const (
	refused = "refused"
	allowed = "allowed"
)

// CredentialPicture is what an expectation wants to see of a credential, or what was seen.
type CredentialPicture struct {
	Identity string   `json:"identity"`
	Verdict  string   `json:"verdict,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Nodes    []string `json:"nodes,omitempty"`
	// Deletion is refused or allowed, Said what the API server says to it or has to name.
	Deletion string   `json:"deletion,omitempty"`
	Said     []string `json:"said,omitempty"`
}

func (r *reader) attemptDelete(p place) Action {
	var a AttemptDelete
	r.mapping(p, fields{"!identity": r.word(&a.Identity), "!expect": r.oneOf(&a.Expect, refused, allowed), "names": r.words(&a.Names)})
	if a.Expect.Text == allowed && len(a.Names) > 0 {
		r.problem(a.Names[0].At, p.key, "a deletion that is allowed names nothing")
	}
	return a
}

func (r *reader) expectCredential(p place) Action {
	var e ExpectCredential
	r.mapping(p, fields{
		"!credential": r.word(&e.Credential), "reason": r.word(&e.Reason), "nodes": r.words(&e.Nodes),
		"!verdict": r.oneOf(&e.Verdict, string(rotationv1.VerdictSafe), string(rotationv1.VerdictHeld), string(rotationv1.VerdictUnknown)),
	})
	return e
}

func (r *reader) attest(p place) Action {
	var a Attest
	r.mapping(p, fields{"!nodeSet": r.word(&a.NodeSet), "!nodes": r.words(&a.Nodes)})
	return a
}

func (r *reader) override(p place) Action {
	var o Override
	r.mapping(p, fields{"!identity": r.word(&o.Identity)})
	return o
}

// String says the step in one line.
func (a Attest) String() string {
	return fmt.Sprintf("attest that %s of %s are gone", list(a.Nodes), a.NodeSet)
}

// String says the step in one line.
func (o Override) String() string { return "override the hold on " + o.Identity.Text }

// credentials checks what is declared of guard and credentials.
func (c *checker) credentials() {
	for _, credential := range c.file.Credentials {
		c.name(credential, "credentials", validation.IsDNS1123Subdomain)
		if c.file.Guard.Text == "" {
			c.problem(credential, "credentials", "without a guard there are no credentials; add the key \"guard\"")
		}
		if other := c.users[credential.Text]; other != nil {
			c.problem(credential, "credentials", "there is a credential %q already, on line %d", credential.Text, other.at.Line)
		}
		c.users[credential.Text] = &thing{at: credential.At}
	}
}

func (c *checker) attemptDelete(a AttemptDelete, line int) {
	if user := c.find("credential", c.users, a.Identity, "identity"); user != nil && a.Expect.Text == allowed {
		user.gone = line
	}
}

func (p *player) declareCredentials(ctx context.Context) error {
	if p.file.Guard.Text == "" {
		return nil
	}
	if err := p.bed.CreateGuard(ctx, p.file.Guard.Text); err != nil {
		return err
	}
	for _, credential := range p.file.Credentials {
		if err := p.bed.CreateCredential(ctx, p.file.Guard.Text, credential.Text); err != nil {
			return err
		}
	}
	return nil
}

// String says the step in one line.
func (a AttemptDelete) String() string {
	text := fmt.Sprintf("delete credential %s: %s", a.Identity, a.Expect)
	if len(a.Names) > 0 {
		text += ", naming " + list(a.Names)
	}
	return text
}

func (a AttemptDelete) wanted() Picture {
	return Picture{Credential: &CredentialPicture{Identity: a.Identity.Text, Deletion: a.Expect.Text, Said: texts(a.Names)}}
}

func (a AttemptDelete) judge(ctx context.Context, p *player, result *Result) error {
	said, left, err := p.bed.AwaitDeletion(ctx, p.file.Guard.Text, a.Identity.Text, a.Expect.Text == refused, func(said string) []string {
		var missing []string
		for _, name := range a.Names {
			if !strings.Contains(said, name.Text) {
				missing = append(missing, fmt.Sprintf("the refusal does not name %s: %s", name, said))
			}
		}
		return missing
	})
	if err != nil {
		return fmt.Errorf("line %d: %w", result.Line, err)
	}
	seen := CredentialPicture{Identity: a.Identity.Text, Deletion: allowed}
	if said != "" {
		seen.Deletion, seen.Said = refused, []string{said}
	}
	result.Seen, result.OK, result.Why = &Picture{Credential: &seen}, len(left) == 0, left
	return nil
}

// String says the step in one line.
func (e ExpectCredential) String() string {
	return strings.TrimSpace(fmt.Sprintf("expect of credential %s: %s %s", e.Credential, e.Verdict, e.Reason))
}

func (e ExpectCredential) wanted() Picture {
	return Picture{Credential: &CredentialPicture{
		Identity: e.Credential.Text, Verdict: e.Verdict.Text, Reason: e.Reason.Text, Nodes: texts(e.Nodes),
	}}
}

func (e ExpectCredential) judge(ctx context.Context, p *player, result *Result) error {
	status, left, err := p.bed.AwaitHold(ctx, p.file.Guard.Text, e.Credential.Text, e.differences)
	if err != nil {
		return fmt.Errorf("line %d: %w", result.Line, err)
	}
	result.Seen, result.OK, result.Why = &Picture{Credential: &CredentialPicture{
		Identity: status.Identity, Verdict: string(status.Verdict), Reason: status.Reason, Nodes: status.Nodes,
	}}, len(left) == 0, left
	return nil
}

func (e ExpectCredential) differences(status rotationv1.CredentialHoldStatus) []string {
	var found []string
	differs := func(what string, want, have any) {
		found = append(found, fmt.Sprintf("%s: expected %v, seen %v (%s)", what, want, have, status.Message))
	}
	if string(status.Verdict) != e.Verdict.Text {
		differs("verdict", e.Verdict, status.Verdict)
	}
	if e.Reason.Text != "" && status.Reason != e.Reason.Text {
		differs("reason", e.Reason, status.Reason)
	}
	if want := texts(e.Nodes); e.Nodes != nil && !slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(status.Nodes))) {
		differs("nodes", want, status.Nodes)
	}
	return found
}
