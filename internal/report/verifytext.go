package report

import (
	"fmt"
	"strings"
)

// Text tells what was compared, a line for each credential and then what differs.
func (v Verification) Text() string {
	var text strings.Builder
	line := func(format string, args ...any) { text.WriteString(oneLine(fmt.Sprintf(format, args...)) + "\n") }
	differ, judged := 0, 0
	for _, c := range v.Credentials {
		name := fmt.Sprintf("%s %s/%s", c.Kind, c.Namespace, c.Name)
		switch {
		case c.Stored == nil:
			line("-  %s is not judged yet; by the evidence it is %s (%s)", name, c.Found.Verdict, c.Found.Reason)
			continue
		case c.Equal:
			line("✔  %s is %s (%s)", name, c.Stored.Verdict, c.Stored.Reason)
		default:
			differ++
			line("✘  %s is %s (%s) in its hold, %s (%s) by the evidence", name, c.Stored.Verdict, c.Stored.Reason, c.Found.Verdict, c.Found.Reason)
			for _, difference := range c.Differences {
				line("     %s", difference)
			}
			for _, because := range c.Because {
				line("     perhaps because %s", because)
			}
			line("     hold:     %s", c.Stored.Message)
			line("     evidence: %s", c.Found.Message)
		}
		judged++
	}
	for _, note := range v.Notes {
		line("!  %s", note)
	}
	switch {
	case judged == 0:
		line("There is nothing to compare.")
	case differ == 0:
		line("All %d stored verdicts follow from the evidence of %s.", judged, v.CollectedAt.UTC().Format("2006-01-02 15:04:05 MST"))
	default:
		line("%d of %d stored verdicts do not follow from the evidence of %s.", differ, judged, v.CollectedAt.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	return text.String()
}
