package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

// Text is the screen as text, exactly as high and no wider than it is.
func (m Model) Text() string {
	head, foot := m.head(), m.foot()
	body, _ := m.window()
	lines := append([]string{head}, body...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(m.height-1, 0)], foot)
	for i, line := range lines {
		lines[i] = fit(line, m.width)
	}
	return strings.Join(lines, "\n")
}

// wide is the width from which on there are two columns.
const wide = 140

// window is the part of the body that is shown, and how far one can scroll.
func (m Model) window() (lines []string, furthest int) {
	room := max(m.height-2, 0)
	if m.width >= wide {
		left := m.width*3/5 - 1
		right := m.width - left - 3
		fleetLines, rest := m.fleet(left), m.credentials(right)
		rest = append(rest, m.log(right, room-len(rest))...)
		furthest = max(0, max(len(fleetLines), len(rest))-room)
		for i := min(m.scroll, furthest); i < max(len(fleetLines), len(rest)) && len(lines) < room; i++ {
			lines = append(lines, pad(at(fleetLines, i), left)+" "+paint(faint, "│")+" "+at(rest, i))
		}
		return lines, furthest
	}
	all := append(m.fleet(m.width), m.credentials(m.width)...)
	log := max(room-len(all), min(max(len(m.events), 1)+1, 5)) // events are always seen, the rest scrolls
	shown := max(room-log, 0)
	furthest = max(0, len(all)-shown)
	from := min(m.scroll, furthest)
	lines = append(lines, all[from:min(len(all), from+shown)]...)
	return append(lines, m.log(m.width, log)...), furthest
}

func (m Model) maxScroll() int {
	_, furthest := m.window()
	return furthest
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// head counts over all NodeSets.
func (m Model) head() string {
	var all report.Counts
	var namespaces []string
	for _, n := range m.report.NodeSets {
		all.Nodes, all.Updated = all.Nodes+n.Nodes, all.Updated+n.Updated
		all.Behind, all.Unknown = all.Behind+n.Behind, all.Unknown+n.Unknown
		namespaces = append(namespaces, n.Namespace)
	}
	slices.Sort(namespaces)
	text := paint(bold, "rotation") + " " + clean(strings.Join(slices.Compact(namespaces), ",")) + "  " + painted(all)
	if m.trouble != "" {
		return paint(red, fmt.Sprintf("as of %s, cannot look now: %s", stamp(m.report.CollectedAt), clean(m.trouble)))
	}
	clock := stamp(m.report.CollectedAt)
	return pad(text, m.width-len(clock)) + clock
}

func painted(c report.Counts) string {
	text := fmt.Sprintf("%d nodes  %s", c.Nodes, paint(green, fmt.Sprintf("%d updated", c.Updated)))
	if c.Behind > 0 {
		text += "  " + paint(yellow, fmt.Sprintf("%d behind", c.Behind))
	}
	if c.Unknown > 0 {
		text += "  " + paint(red, fmt.Sprintf("%d unknown", c.Unknown))
	}
	return text
}

func (m Model) foot() string {
	return paint(faint, "q leave  ↑↓ scroll  "+updatedMark+" updated  a-z behind, by version  "+unknownMark+" unknown")
}

// fleet shows all NodeSets.
func (m Model) fleet(width int) []string {
	var lines []string
	for _, note := range m.report.Notes {
		lines = append(lines, fit(paint(red, "! "+clean(note.Text)), width))
	}
	for i := range m.report.NodeSets {
		lines = append(lines, nodeSetLines(&m.report.NodeSets[i], m.report.CollectedAt, width)...)
		lines = append(lines, "")
	}
	if len(m.report.NodeSets) == 0 {
		lines = append(lines, "there is no NodeSet", "")
	}
	return lines
}

// maxBars is how many Secrets of a NodeSet have a bar; those that drift most come first.
const maxBars = 6

func nodeSetLines(n *report.NodeSet, now time.Time, width int) []string {
	lines := []string{fit(paint(bold, clean(n.Name))+"  "+painted(n.Counts), width)}
	for _, missing := range n.Missing {
		lines = append(lines, fit("  "+paint(red, "! "+clean(missing)), width))
	}
	for _, r := range n.Running {
		where := "all nodes"
		if r.Limit != "" {
			where = r.Limit
		}
		lines = append(lines, fit(clean(fmt.Sprintf("  » %s goes to %s, for %s", r.Name, where, ago(now.Sub(r.Since)))), width))
	}
	secrets := slices.Clone(n.Secrets)
	slices.SortStableFunc(secrets, func(a, b report.Secret) int { return (b.Nodes - b.Updated) - (a.Nodes - a.Updated) })
	drawn := secrets[:min(len(secrets), maxBars)]
	nameWidth, tailWidth := 0, 0
	for _, s := range drawn {
		nameWidth = max(nameWidth, min(ansi.StringWidth(clean(s.Name)), max(width/2-10, 8)))
		tailWidth = max(tailWidth, min(ansi.StringWidth(tailOf(s)), width/2))
	}
	for _, s := range drawn {
		barWidth := max(min(width-nameWidth-tailWidth-4, 40), 5)
		lines = append(lines, fit("  "+pad(clean(s.Name), nameWidth)+"  "+bar(s.Counts, barWidth)+tailOf(s), width))
	}
	if len(secrets) > maxBars {
		lines = append(lines, paint(faint, fmt.Sprintf("  and %d more Secrets", len(secrets)-maxBars)))
	}
	if len(n.HostSecrets) > 0 {
		behind := 0
		for _, s := range n.HostSecrets {
			behind += s.Nodes - s.Updated
		}
		lines = append(lines, fit(fmt.Sprintf("  %d Secrets of single hosts, %d not updated", len(n.HostSecrets), behind), width))
	}
	if len(secrets) > 0 {
		lines = append(lines, grid(n, secrets[0], width)...)
	}
	return lines
}

// tailOf says in numbers how far a Secret is, and which version the cluster has.
func tailOf(s report.Secret) string {
	return fmt.Sprintf(" %9s  %s", fmt.Sprintf("%d/%d", s.Updated, s.Nodes), clean(named(s.Expected, s.ExpectedIdentities)))
}

// bar never looks full while a node is not updated, and shows every node in doubt.
func bar(c report.Counts, width int) string {
	if c.Nodes == 0 {
		return strings.Repeat("·", width)
	}
	updated := c.Updated * width / c.Nodes
	unknown := c.Unknown * width / c.Nodes
	if c.Unknown > 0 {
		unknown = max(unknown, 1)
	}
	updated = min(updated, width-unknown)
	behind := width - updated - unknown
	if c.Behind == 0 {
		unknown += behind * min(c.Unknown, 1)
		behind -= behind * min(c.Unknown, 1)
	}
	return paint(green, strings.Repeat("█", updated)) + paint(yellow, strings.Repeat("░", behind)) + paint(red, strings.Repeat("▒", unknown))
}

const (
	updatedMark = "■"
	unknownMark = "?"
)

// grid shows every node by the version of the Secret that it runs, and then what the letters mean.
func grid(n *report.NodeSet, secret report.Secret, width int) []string {
	letters := map[fleet.Version]string{}
	for _, v := range secret.Versions {
		if v.Version != secret.Expected && v.Version != fleet.Unknown && len(letters) < 26 {
			letters[v.Version] = string(rune('a' + len(letters)))
		}
	}
	var marks []string
	first, last := "", ""
	for _, node := range n.NodeList {
		for _, cell := range node.Cells {
			if cell.Secret == secret.Name && !node.Departed {
				marks = append(marks, markOf(cell, letters))
				if first == "" {
					first = node.Name
				}
				last = node.Name
			}
		}
	}
	if len(marks) == 0 {
		return nil
	}
	perLine := max((width-4)/10*10, 10)
	var lines []string
	for at := 0; at < len(marks); at += perLine {
		lines = append(lines, fit("  "+strings.Join(marks[at:min(at+perLine, len(marks))], ""), width))
	}
	legend := "  " + clean(first)
	if last != first {
		legend += " … " + clean(last)
	}
	for _, v := range secret.Versions {
		mark, known := letters[v.Version]
		switch {
		case v.Version == secret.Expected && v.Version != fleet.Unknown:
			mark = updatedMark
		case !known:
			continue
		}
		legend += fmt.Sprintf("   %s %s %d", mark, clean(named(v.Version, v.Identities)), v.Nodes)
	}
	return append(lines, fit(paint(faint, legend), width))
}

func markOf(cell report.Cell, letters map[fleet.Version]string) string {
	switch {
	case cell.State == report.Updated:
		return paint(green, updatedMark)
	case cell.State == report.Behind && letters[cell.Version] != "":
		return paint(yellow, letters[cell.Version])
	}
	return paint(red, unknownMark)
}

// credentials shows the verdicts.
func (m Model) credentials(width int) []string {
	var lines []string
	for _, c := range m.report.Credentials {
		color := map[Tone]string{Good: green, Waiting: yellow, Bad: red}[toneOf(c)]
		title := fmt.Sprintf("%-7s %s %s", c.Verdict, titleOf(c), c.Reason)
		if c.Affected+c.Unknown > 0 {
			title += fmt.Sprintf("  %d nodes", c.Affected)
			if c.Unknown > 0 {
				title += fmt.Sprintf(", %d unknown", c.Unknown)
			}
		}
		if c.Since != nil {
			title += "  " + ago(m.report.CollectedAt.Sub(*c.Since))
		}
		lines = append(lines, fit(paint(color, clean(title)), width))
		message := c.Message
		if contradicted := c.Contradicted(); contradicted != "" {
			message = "but: " + contradicted
		}
		lines = append(lines, fit(paint(faint, "        "+clean(message)), width))
	}
	if len(lines) > 0 {
		lines = append([]string{paint(bold, "credentials")}, append(lines, "")...)
	}
	return lines
}

// log shows the latest events in so many lines.
func (m Model) log(width, room int) []string {
	if room <= 0 {
		return nil
	}
	lines := []string{paint(bold, "events")}
	for _, event := range m.events {
		color := map[Tone]string{Plain: "", Good: green, Waiting: yellow, Bad: red}[event.Tone]
		lines = append(lines, fit(paint(faint, stamp(event.At))+" "+paint(color, event.Text), width))
	}
	if len(m.events) == 0 {
		lines = append(lines, paint(faint, "nothing has changed since you began to watch"))
	}
	return lines[:min(len(lines), room)]
}

// ago is a span in the one unit that says most.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Colours, as their codes.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
	bold   = "1"
)

func paint(code, text string) string {
	if code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// fit cuts a line to the width.
func fit(line string, width int) string { return ansi.Truncate(line, max(width, 0), "…") }

// pad makes a line exactly as wide.
func pad(line string, width int) string {
	line = fit(line, width)
	return line + strings.Repeat(" ", max(0, width-ansi.StringWidth(line)))
}

// clean keeps what a name may hold from commanding the terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}
