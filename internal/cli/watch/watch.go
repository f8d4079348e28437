// Package watch shows a fleet as it changes: a screen on a terminal, a line for each change elsewhere.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

// Source reads the fleet once.
type Source func(context.Context) (report.Report, error)

// Lines prints what there is, and then a line for each change, until the context ends. An error at the first look is
// final; later ones are told and looked past.
func Lines(ctx context.Context, source Source, every time.Duration, out io.Writer) error {
	last, err := source(ctx)
	if err != nil {
		return err
	}
	for _, line := range summary(last) {
		if _, err := fmt.Fprintf(out, "%s %s\n", stamp(last.CollectedAt), line); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	trouble := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		next, err := source(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && err.Error() != trouble:
			trouble = err.Error()
			fmt.Fprintf(out, "%s cannot look: %s\n", stamp(time.Now()), clean(trouble))
		case err == nil:
			if trouble != "" {
				fmt.Fprintf(out, "%s can look again\n", stamp(next.CollectedAt))
			}
			for _, event := range Changes(last, next) {
				if _, err := fmt.Fprintf(out, "%s %s\n", stamp(event.At), event.Text); err != nil {
					return fmt.Errorf("printing: %w", err)
				}
			}
			last, trouble = next, ""
		}
	}
}

// summary is one line for each NodeSet and credential.
func summary(r report.Report) []string {
	var lines []string
	for _, note := range r.Notes {
		lines = append(lines, clean(note.Text))
	}
	for _, n := range r.NodeSets {
		lines = append(lines, clean(fmt.Sprintf("NodeSet %s: %s", n.Name, countsOf(n.Counts))))
	}
	for _, c := range r.Credentials {
		lines = append(lines, clean(fmt.Sprintf("%s is %s, %s: %s", titleOf(c), c.Verdict, c.Reason, c.Message)))
	}
	if len(lines) == 0 {
		lines = append(lines, "there is no NodeSet")
	}
	return lines
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05") }

// Screen shows the fleet until the user leaves or the context ends.
func Screen(ctx context.Context, source Source, every time.Duration, options ...tea.ProgramOption) error {
	first, err := source(ctx)
	if err != nil {
		return err
	}
	model := New(first)
	model.look = func() tea.Msg {
		next, err := source(ctx)
		return looked{next, err}
	}
	model.every = every
	_, err = tea.NewProgram(model, append([]tea.ProgramOption{tea.WithContext(ctx)}, options...)...).Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the screen: %w", err)
	}
	return nil
}

// looked is what a look found.
type looked struct {
	report report.Report
	err    error
}

// again asks for the next look.
type again struct{}

// maxEvents is how many events are remembered.
const maxEvents = 500

// Model is the screen: what is shown and where in it the reader is.
type Model struct {
	report        report.Report
	events        []Event // latest first
	trouble       string
	width, height int
	scroll        int
	look          tea.Cmd
	every         time.Duration
}

// New is the screen of a report.
func New(r report.Report) Model { return Model{report: r, width: 80, height: 24} }

// Sized is the screen at another size.
func (m Model) Sized(width, height int) Model {
	m.width, m.height = width, height
	return m
}

// Seen is the screen after one more look.
func (m Model) Seen(r report.Report) Model {
	for _, event := range Changes(m.report, r) {
		m.events = append([]Event{event}, m.events...)
	}
	m.events = m.events[:min(len(m.events), maxEvents)]
	m.report, m.trouble = r, ""
	return m
}

// Init waits for the time of the next look.
func (m Model) Init() tea.Cmd { return m.wait() }

func (m Model) wait() tea.Cmd {
	if m.look == nil {
		return nil
	}
	return tea.Tick(m.every, func(time.Time) tea.Msg { return again{} })
}

// Update takes keys, sizes and looks.
func (m Model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		return m.Sized(message.Width, message.Height), nil
	case again:
		return m, m.look
	case looked:
		if message.err != nil {
			m.trouble = message.err.Error()
			return m, m.wait()
		}
		return m.Seen(message.report), m.wait()
	case tea.KeyPressMsg:
		return m.key(message.String())
	}
	return m, nil
}

func (m Model) key(name string) (tea.Model, tea.Cmd) {
	page := max(m.height-4, 1)
	switch name {
	case "q", "ctrl+c", "esc":
		return m, tea.Quit
	case "down", "j":
		m.scroll++
	case "up", "k":
		m.scroll--
	case "pgdown", "space", " ":
		m.scroll += page
	case "pgup":
		m.scroll -= page
	case "home", "g":
		m.scroll = 0
	}
	m.scroll = max(0, min(m.scroll, m.maxScroll()))
	return m, nil
}

// View is the whole screen.
func (m Model) View() tea.View {
	view := tea.NewView(m.Text())
	view.AltScreen = true
	view.WindowTitle = "rotation"
	return view
}
