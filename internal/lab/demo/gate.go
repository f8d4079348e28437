package demo

import (
	"context"
	"fmt"
	"strings"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// tryDelete waits for the verdict on the old credential, and then tries to delete it, as an administrator would. With
// the reason Safe it goes; otherwise the API server refuses and names what is in the way.
func (d *demo) tryDelete(ctx context.Context, reason, names string) error {
	status, left, err := d.bed.AwaitHold(ctx, guard, oldUser, func(s rotationv1.CredentialHoldStatus) []string {
		if s.Reason != reason {
			return []string{fmt.Sprintf("expected %s, seen %s (%s)", reason, s.Reason, s.Message)}
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the hold on %s does not show what it should: %s", oldUser, strings.Join(left, "; "))
	}
	if err != nil {
		return err
	}
	d.say("\n  kubectl delete rabbitmquser %s", oldUser)
	isSafe := status.Verdict == rotationv1.VerdictSafe
	said, left, err := d.bed.AwaitDeletion(ctx, guard, oldUser, !isSafe, func(said string) []string {
		if !strings.Contains(said, names) {
			return []string{"the refusal does not name " + names}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return fmt.Errorf("deleting %s: %s", oldUser, strings.Join(left, "; "))
	case isSafe:
		d.say("    deleted: no node runs it any more")
		return nil
	}
	_, why, _ := strings.Cut(said, "denied request: ")
	why, hint, _ := strings.Cut(why, "; run: ")
	d.say("%s", wrap("refused: "+why))
	d.say("    run: %s", hint)
	return nil
}

// wrap breaks a text between words, so that it fits a terminal behind four blanks.
func wrap(text string) string {
	const width, before = 76, "    "
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, before+line)
			line = "  " + word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, before+line), "\n")
}
