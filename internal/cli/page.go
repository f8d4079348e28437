package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/rotation-operator/rotation-operator/internal/trackmap"
)

// columns is how wide text is.
const columns = 80

// Colours, as their codes. They only repeat what words say.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
)

// wantsColour tells whether somebody sees colours there.
func wantsColour(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// page is text in the making.
type page struct {
	text      strings.Builder
	colour    bool
	wide      bool
	noHeaders bool
}

func (t *tool) page() *page {
	return &page{colour: t.colour, wide: t.output == "wide", noHeaders: t.noHeaders}
}

// flush prints the page.
func (t *tool) flush(p *page) error {
	if _, err := io.WriteString(t.streams.Out, p.text.String()); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func (p *page) paint(code, text string) string {
	if !p.colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// gap is an empty line between parts.
func (p *page) gap() {
	if p.text.Len() > 0 {
		p.text.WriteString("\n")
	}
}

// say writes a paragraph, wrapped.
func (p *page) say(format string, values ...any) { p.indent("", "", fmt.Sprintf(format, values...)) }

// indent writes a paragraph with one prefix on its first line and another on the rest.
func (p *page) indent(first, rest, text string) {
	room := columns - ansi.StringWidth(rest)
	for i, line := range wrap(clean(text), room) {
		prefix := rest
		if i == 0 {
			prefix = first
		}
		p.text.WriteString(prefix + line + "\n")
	}
}

// command writes a command line that can be copied as it is: in one line where it fits, else a pipe in one line for each
// program, and those that are still too long with backslashes.
func (p *page) command(prefix, text string) {
	next := strings.Repeat(" ", len(prefix)) + "  "
	text = clean(text)
	programs := strings.Split(text, " | ")
	if len(prefix)+ansi.StringWidth(text) <= columns {
		programs = []string{text}
	}
	for i, program := range programs {
		if i > 0 {
			p.text.WriteString(" |\n" + next)
		} else {
			p.text.WriteString(prefix)
		}
		p.text.WriteString(strings.Join(fill(words(program), columns-len(next)-2), " \\\n"+next))
	}
	p.text.WriteString("\n")
}

// words splits a command line where a shell does: not between quotes.
func words(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

// fix writes what to do: a command, or a sentence.
func (p *page) fix(prefix, text string) {
	if strings.HasPrefix(text, "kubectl ") {
		p.command(prefix, text)
		return
	}
	p.indent(prefix, strings.Repeat(" ", len(prefix)), text)
}

// wrap breaks text between words. A word that is too long stands alone in its line, cut nowhere: it may be copied.
func wrap(text string, room int) []string { return fill(strings.Fields(text), room) }

func fill(words []string, room int) []string {
	var lines []string
	line := ""
	for _, word := range words {
		switch {
		case line == "":
			line = word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) <= room:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// row is a line of a table; colour is of its whole line.
type row struct {
	cells  []string
	colour string
}

// table writes rows under headers. What does not fit is cut, unless it is to be wide.
func (p *page) table(indent string, headers []string, rows []row) {
	if len(rows) == 0 {
		return
	}
	lines := rows
	if !p.noHeaders {
		lines = append([]row{{cells: headers, colour: bold}}, rows...)
	}
	widths := make([]int, len(headers))
	for _, line := range lines {
		for i, cell := range line.cells {
			widths[i] = max(widths[i], ansi.StringWidth(clean(cell)))
		}
	}
	if !p.wide {
		shrink(widths, columns-len(indent)-2*(len(widths)-1))
	}
	for _, line := range lines {
		last := len(line.cells) - 1
		var text strings.Builder
		for i, cell := range line.cells[:last] {
			cell = cut(cell, widths[i])
			text.WriteString(cell + strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)+2))
		}
		rest := strings.Repeat(" ", ansi.StringWidth(text.String()))
		for i, part := range wrap(clean(line.cells[last]), widths[last]) { // the last column has room below
			if i > 0 {
				text.Reset()
				text.WriteString(rest)
			}
			text.WriteString(cut(part, widths[last]))
			p.text.WriteString(indent + p.paint(line.colour, strings.TrimRight(text.String(), " ")) + "\n")
		}
	}
}

// cut makes a cell fit its column.
func cut(cell string, width int) string { return ansi.Truncate(clean(cell), width, "…") }

// shrink makes columns fit: it takes from the last, which matters least, and then from the widest.
func shrink(widths []int, room int) {
	const least, lastLeast = 8, 12
	total := 0
	for _, width := range widths {
		total += width
	}
	last := len(widths) - 1
	for ; total > room; total-- {
		widest := last
		for i := range widths {
			if widths[last] <= lastLeast && widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= least {
			return
		}
		widths[widest]--
	}
}

// names lists names as far as a sentence bears.
func names(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// ago is a span of time in the one unit that says most.
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

func since(now time.Time, then *time.Time) string {
	if then == nil {
		return "-"
	}
	return ago(now.Sub(*then))
}

// folded writes names in short, such as compute-[0-7].
func folded(all []string, wide bool) string {
	const most = 200
	text := trackmap.Fold(all)
	if len(text) > most && !wide {
		return names(all, 10)
	}
	inside := false
	return strings.Map(func(r rune) rune { // between names, not within a range
		switch r {
		case '[', ']':
			inside = r == '['
		case ',':
			if !inside {
				return ' '
			}
		}
		return r
	}, text)
}

func minute(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// clean keeps what a name may hold from commanding the terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return '?'
	}, text)
}

// cleanLines is an error as it is printed: wrapped, line by line.
func cleanLines(text string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimRight(clean(text), "\n"), "\n") {
		lines = append(lines, wrap(line, columns)...)
	}
	return strings.Join(lines, "\n")
}
