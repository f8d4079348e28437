package cli

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCommandStaysOne: however a command is broken over lines, a shell takes it for the same.
func TestCommandStaysOne(t *testing.T) {
	const end = " | tail -n 1"
	for _, length := range []int{10, 60, 70, 90, 200} {
		text := "echo '  quoted  words' " + strings.Repeat("word ", length/5) + "-x" + end
		p := &page{}
		p.command("   ", text)
		narrow(t, []string{text}, p.text.String())
		want, err := exec.Command("sh", "-c", text).Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command("sh", "-c", p.text.String()).Output()
		if err != nil || string(got) != string(want) {
			t.Errorf("%q, want %q: %v\n%s", got, want, err, p.text.String())
		}
	}
}
