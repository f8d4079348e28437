package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

func (t *tool) reportCommand() *cobra.Command {
	var format, file string
	command := &cobra.Command{
		Use: "report", Short: "Write a support bundle: all evidence, without the content of any Secret",
		Args: between(0, 0, ""),
		RunE: func(command *cobra.Command, _ []string) error {
			if format != "yaml" && format != "json" {
				return misused("there is no output %q: use yaml or json", format)
			}
			evidence, err := t.evidence(command.Context())
			if err != nil {
				return err
			}
			text, err := bundle(evidence, format)
			if err != nil {
				return err
			}
			if file == "" || file == "-" {
				return t.print(string(text))
			}
			const ownerOnly = 0o600
			if err := os.WriteFile(file, text, ownerOnly); err != nil {
				return fmt.Errorf("writing the bundle: %w", err)
			}
			fmt.Fprintf(t.streams.ErrOut, "Written to %s. 'kubectl rotation verify %s' recomputes its verdicts.\n", file, file)
			return nil
		},
	}
	command.Flags().StringVarP(&format, "output", "o", "yaml", "yaml or json")
	command.Flags().StringVarP(&file, "file", "f", "", "where to; without it the standard output")
	return t.addFlags(command, everywhere)
}

func bundle(evidence report.Evidence, format string) ([]byte, error) {
	if format == "yaml" {
		text, err := report.MarshalBundle(evidence)
		if err != nil {
			return nil, fmt.Errorf("writing the bundle: %w", err)
		}
		return text, nil
	}
	text, err := json.MarshalIndent(report.Bundle(evidence), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the bundle: %w", err)
	}
	return append(text, '\n'), nil
}

func (t *tool) verifyCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "verify FILE", Short: "Recompute the verdicts in a support bundle, without a cluster",
		Args: between(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := t.file(args[0])
			if err != nil {
				return err
			}
			evidence, err := report.ReadBundle(text)
			if err != nil {
				return fmt.Errorf("%s is no bundle: %w", args[0], err)
			}
			v := report.Verify(evidence)
			if err := t.emit(printed{value: v, text: func(p *page) { p.verification(v) }}); err != nil {
				return err
			}
			judged := 0
			for _, c := range v.Credentials {
				if c.Stored != nil {
					judged++
				}
			}
			switch {
			case v.Equal:
				return nil
			case judged == 0:
				return answered(NotKnown)
			}
			return answered(HoldsNot)
		},
	}
	return t.addFlags(command, outputs)
}

func (t *tool) file(name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(t.streams.In)
		if err != nil {
			return nil, fmt.Errorf("reading the bundle: %w", err)
		}
		return text, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the bundle: %w", err)
	}
	return text, nil
}

func (p *page) verification(v report.Verification) {
	var rows []row
	for _, c := range v.Credentials {
		stored, equal, colour := "not judged", "-", ""
		if c.Stored != nil {
			stored = c.Stored.Verdict + ", " + c.Stored.Reason
			equal, colour = "no", red
			if c.Equal {
				equal, colour = "yes", green
			}
		}
		rows = append(rows, row{[]string{c.Kind + "/" + c.Name, stored, c.Found.Verdict + ", " + c.Found.Reason, equal}, colour})
	}
	p.table("", []string{"CREDENTIAL", "STORED", "FOUND AGAIN", "EQUAL"}, rows)
	for _, c := range v.Credentials {
		if len(c.Differences) == 0 {
			continue
		}
		p.gap()
		p.say("%s/%s differs:", c.Kind, c.Name)
		for _, difference := range c.Differences {
			p.indent("  ", "    ", difference)
		}
		if len(c.Because) > 0 {
			p.indent("  ", "    ", "perhaps because "+strings.Join(c.Because, "; "))
		}
	}
	p.gap()
	if v.Equal {
		p.say("Every verdict follows from the evidence, as of %s UTC.", minute(&v.CollectedAt))
	} else {
		p.say("Not every verdict follows from the evidence, as of %s UTC.", minute(&v.CollectedAt))
	}
	for _, note := range v.Notes {
		p.indent("Note: ", "  ", note)
	}
}
