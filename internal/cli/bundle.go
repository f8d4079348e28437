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

const reportLong = `Writes everything that the answers rest on: records, NodeSets, Deployments,
Services, guards, holds, and what people said, each with only the fields that
matter. Names of nodes, Secrets and credentials are in it; no content of a
Secret, no variable and no annotation is.

verify and simulate -f read it again without a cluster.`

const verifyLong = `Recomputes every verdict from a bundle, without a cluster, and compares it with
what the holds in the bundle say.

Exit codes: 0 all follow from the evidence, 3 one does not, 5 there is none to
compare.`

func (t *tool) reportCommand() *cobra.Command {
	var format, file string
	command := &cobra.Command{
		Use: "report", Short: "Write a support bundle: all evidence, without the content of any Secret", Long: reportLong,
		Example: "  kubectl rotation report -f bundle.yaml", Args: between(0, 0, ""),
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
			t.warn(report.Build(evidence))
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
		Use: "verify FILE", Short: "Recompute the verdicts in a support bundle, without a cluster", Long: verifyLong,
		Example: "  kubectl rotation verify bundle.yaml", Args: between(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			evidence, err := t.bundle(args[0])
			if err != nil {
				return err
			}
			v := report.Verify(evidence)
			if err := t.emit(printed{value: v, text: func(p *page) { p.verification(v) }}); err != nil {
				return err
			}
			switch {
			case v.Equal:
				return nil
			case v.Judged() == 0:
				return answered(NotKnown)
			}
			return answered(HoldsNot)
		},
	}
	return t.addFlags(command, outputs)
}

// bundle reads a file, or the standard input for -.
func (t *tool) bundle(name string) (report.Evidence, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(t.streams.In)
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return report.Evidence{}, fmt.Errorf("reading the bundle: %w", err)
	}
	evidence, err := report.ReadBundle(text)
	if err != nil {
		return evidence, fmt.Errorf("%s: %w", name, err)
	}
	return evidence, nil
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
	switch judged, as := v.Judged(), minute(&v.CollectedAt); {
	case v.Equal:
		p.say("All of %s follow from the evidence, as of %s UTC.", plural(judged, "verdict"), as)
	case judged == 0:
		p.say("There is nothing to compare, as of %s UTC.", as)
	default:
		p.say("Not all of %s follow from the evidence, as of %s UTC.", plural(judged, "verdict"), as)
	}
	for _, note := range v.Notes {
		p.indent("Note: ", "  ", note)
	}
}
