package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// repeats gives a command -w: what it prints is printed again whenever its value has changed.
func (t *tool) repeats(command *cobra.Command) {
	command.Flags().BoolVarP(&t.watching, "watch", "w", false, "print it again whenever it changes, until you interrupt it")
	once := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if !t.watching {
			return once(command, args)
		}
		return t.repeat(command.Context(), func() error { return once(command, args) })
	}
}

// repeat runs a command again and again. Whoever interrupts it gets the last answer as exit code, never a yes for nothing.
func (t *tool) repeat(ctx context.Context, once func() error) error {
	ticker := time.NewTicker(t.pause)
	defer ticker.Stop()
	var last error = failure{Failed, "interrupted before anything was read"}
	for {
		err := once()
		switch isAnswer := err == nil || err.Error() == ""; {
		case isAnswer:
			last = err
		case ctx.Err() != nil:
			return last
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
	}
}

// isNews tells whether a value differs from what was printed last, apart from the time when it was read.
func (t *tool) isNews(value any) (bool, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return false, fmt.Errorf("printing: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return false, fmt.Errorf("printing: %w", err)
	}
	delete(fields, "collectedAt")
	if text, err = json.Marshal(fields); err != nil {
		return false, fmt.Errorf("printing: %w", err)
	}
	before := t.printed
	t.printed = string(text)
	return t.printed != before, nil
}

// separate keeps what is printed again from what stands above it.
func (t *tool) separate() error {
	switch t.output {
	case "yaml":
		return t.print("---\n")
	case "table", "wide":
		return t.print("\n" + t.now().UTC().Format(time.TimeOnly) + " UTC\n")
	}
	return nil
}
