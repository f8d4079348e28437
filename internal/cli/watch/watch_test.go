package watch_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/rotation-operator/rotation-operator/internal/cli/watch"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// frames are screens with the reports that were seen one after the other.
var frames = map[string][]*reporttest.Story{
	"healthy":  {reporttest.Healthy()},
	"rotating": {reporttest.Healthy(), reporttest.Drifted(), reporttest.Partial()},
	"unknown":  {reporttest.Healthy(), reporttest.Unknown()},
	"done":     {reporttest.Partial(), reporttest.Done()},
	"large":    {reporttest.Large(1000, 9)},
}

func screen(stories []*reporttest.Story) watch.Model {
	model := watch.New(report.Build(stories[0].Evidence()))
	for _, story := range stories[1:] {
		model = model.Seen(report.Build(story.Evidence()))
	}
	return model
}

// TestFrames compares screens with the golden files, without colours, and with their size.
func TestFrames(t *testing.T) {
	for name, stories := range frames {
		for _, size := range [][2]int{{80, 24}, {200, 50}} {
			text := screen(stories).Sized(size[0], size[1]).View().Content
			got := trimmed(ansi.Strip(text))
			path := filepath.Join("testdata", name+map[int]string{80: "-80x24.txt", 200: "-200x50.txt"}[size[0]])
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s is\n%s\nwant\n%s", path, got, want)
			}
		}
	}
}

// trimmed takes the blanks at the ends of lines away.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestFramesFit: at any size the screen is just as high and never wider, and scrolling reaches every line and no further.
func TestFramesFit(t *testing.T) {
	for name, stories := range frames {
		model := screen(stories)
		for _, width := range []int{1, 7, 20, 40, 79, 80, 139, 140, 200} {
			for _, height := range []int{1, 2, 3, 5, 10, 24, 50} {
				m := model.Sized(width, height)
				for range 5 {
					lines := strings.Split(m.View().Content, "\n")
					if len(lines) != height {
						t.Fatalf("%s at %dx%d has %d lines", name, width, height, len(lines))
					}
					for _, line := range lines {
						if got := ansi.StringWidth(line); got > width {
							t.Fatalf("%s at %dx%d: a line is %d wide: %q", name, width, height, got, line)
						}
					}
					next, _ := m.Update(tea.KeyPressMsg{Code: tea.KeyPgDown})
					m = next.(watch.Model)
				}
			}
		}
	}
}

// TestScroll: what does not fit is reached by keys, and back.
func TestScroll(t *testing.T) {
	var model tea.Model = screen(frames["large"]).Sized(80, 12)
	top := model.(watch.Model).View().Content
	seen := top
	for range 50 {
		model, _ = model.Update(tea.KeyPressMsg{Code: tea.KeyDown})
		seen += "\n" + model.(watch.Model).View().Content
	}
	if !strings.Contains(ansi.Strip(seen), "RabbitMQUser user7") || strings.Contains(ansi.Strip(top), "RabbitMQUser user7") {
		t.Errorf("scrolling does not reach the credentials:\n%s", ansi.Strip(seen))
	}
	model, _ = model.Update(tea.KeyPressMsg{Code: tea.KeyHome})
	if model.(watch.Model).View().Content != top {
		t.Error("home does not go back to the beginning")
	}
	if _, command := model.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); command == nil {
		t.Error("q does not leave")
	}
}

// TestNamesCommandNothing: what stands in names does not reach the terminal as a command.
func TestNamesCommandNothing(t *testing.T) {
	s := reporttest.New()
	s.NodeSet("edpm", "compute-0\x1b]0;owned\x07", "\u202ecompute-1", "compute-2\r\nx")
	s.Write(reporttest.NovaConfig, "user\x1b[2J")
	r := report.Build(s.Evidence())
	text := screen([]*reporttest.Story{s}).Sized(200, 50).View().Content
	for _, event := range watch.Changes(report.Report{}, r) {
		text += event.Text
	}
	if plain := ansi.Strip(text); strings.Contains(text, "\x1b]") || strings.Contains(text, "\x1b[2J") || strings.ContainsAny(plain, "\r\x07\u202e") {
		t.Errorf("a name commands the terminal: %q", text)
	}
}

// TestChanges: the events between the stages of a rotation.
func TestChanges(t *testing.T) {
	var got []string
	stages := []*reporttest.Story{reporttest.Healthy(), reporttest.Drifted(), reporttest.Partial(), reporttest.Done()}
	for i := 1; i < len(stages); i++ {
		for _, event := range watch.Changes(report.Build(stages[i-1].Evidence()), report.Build(stages[i].Evidence())) {
			got = append(got, event.Text)
		}
	}
	for _, want := range []string{
		"Secret nova-cell1-compute-config in the cluster is",
		"compute-0 of edpm: nb6h658h (user8) of nova-cell1-compute-config, by edpm-c0 (nova)",
		"compute-2, compute-10 of edpm: any of 2 versions of nova-cell1-compute-config",
		"Deployment edpm-c10 goes to compute-10 of NodeSet edpm",
		"Deployment edpm-c10 is over and recorded for NodeSet edpm",
		"NodeSet edpm: all 4 nodes are updated",
		"RabbitMQUser user7 is Safe, Safe: No node can be running user7",
	} {
		if !slices.ContainsFunc(got, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("nothing says %q:\n%s", want, strings.Join(got, "\n"))
		}
	}
	same := report.Build(reporttest.Partial().Evidence())
	if events := watch.Changes(same, report.Build(reporttest.Partial().Evidence())); len(events) > 0 {
		t.Errorf("nothing changed, and yet: %v", events)
	}
}

// TestLines: without a terminal there is a line for what is there and one for each change; trouble is told once.
func TestLines(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looks := []func() (report.Report, error){
		func() (report.Report, error) { return report.Build(reporttest.Healthy().Evidence()), nil },
		func() (report.Report, error) { return report.Report{}, errors.New("connection refused") },
		func() (report.Report, error) { return report.Report{}, errors.New("connection refused") },
		func() (report.Report, error) { return report.Build(reporttest.Drifted().Evidence()), nil },
	}
	source := func(context.Context) (report.Report, error) {
		if len(looks) == 0 {
			cancel()
			return report.Report{}, context.Canceled
		}
		look := looks[0]
		looks = looks[1:]
		return look()
	}
	var out bytes.Buffer
	if err := watch.Lines(ctx, source, time.Millisecond, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NodeSet edpm: 4 nodes, 4 updated", "can look again", "Secret nova-cell1-compute-config in the cluster is"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Count(out.String(), "cannot look: connection refused") != 1 {
		t.Errorf("trouble is not told once:\n%s", out.String())
	}
	failing := func(context.Context) (report.Report, error) { return report.Report{}, errors.New("forbidden") }
	if err := watch.Lines(t.Context(), failing, time.Millisecond, &out); err == nil {
		t.Error("a first look that fails is no error")
	}
}

// TestScreenRuns lets the program run on something like a terminal until q is pressed.
func TestScreenRuns(t *testing.T) {
	keys, press := io.Pipe()
	defer press.Close()
	looks := 0
	source := func(context.Context) (report.Report, error) {
		if looks++; looks == 3 {
			go press.Write([]byte("q"))
		}
		if looks > 1 {
			return report.Build(reporttest.Partial().Evidence()), nil
		}
		return report.Build(reporttest.Drifted().Evidence()), nil
	}
	var out bytes.Buffer
	err := watch.Screen(t.Context(), source, time.Millisecond, tea.WithInput(keys), tea.WithOutput(&out), tea.WithWindowSize(100, 30), tea.WithoutSignals())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(ansi.Strip(out.String()), "compute-2") {
		t.Errorf("the screen does not show what was seen: %q", out.String())
	}
}
