package report

import (
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Answer is whether a credential may go, as every command and the page say it.
type Answer struct {
	// Verdict is the operator's, but Safe only where nothing that was read speaks against it.
	Verdict rotationv1.HoldVerdict
	// But is what speaks against the operator's verdict, a sentence without a full stop; empty where nothing does.
	But string
	// Reason is the operator's, or that of But.
	Reason string
}

// Answer takes the operator's verdict for a yes only where nothing that was read speaks against it.
func (r Report) Answer(c Credential) Answer {
	switch c.Verdict {
	case string(rotationv1.VerdictSafe):
	case string(rotationv1.VerdictHeld):
		return Answer{Verdict: rotationv1.VerdictHeld, Reason: c.Reason}
	default:
		return Answer{Verdict: rotationv1.VerdictUnknown, Reason: c.Reason}
	}
	if against := r.Serious(c.Namespace); len(against) > 0 {
		return Answer{rotationv1.VerdictUnknown, against[0].Text, string(verdict.ReasonEvidenceIncomplete)}
	}
	if c.Override != "" {
		return Answer{Verdict: rotationv1.VerdictSafe, Reason: c.Reason}
	}
	if but := c.Contradicted(); but != "" {
		return Answer{rotationv1.VerdictUnknown, but, c.Checks[0].Reason}
	}
	if len(c.Checks) > 0 { // such as a Secret that was written after the verdict
		return Answer{rotationv1.VerdictUnknown, c.Checks[0].Message, c.Checks[0].Reason}
	}
	return Answer{Verdict: rotationv1.VerdictSafe, Reason: c.Reason}
}

// Serious are the notes because of which answers about the namespace are not sure; about any namespace without one.
func (r Report) Serious(namespace string) []Note {
	var all []Note
	for _, note := range r.Notes {
		if note.Serious && (namespace == "" || note.Namespace == "" || note.Namespace == namespace) {
			all = append(all, note)
		}
	}
	return all
}
