package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// NewCommand is `rotation-lab replay`.
func NewCommand() *cobra.Command {
	var options Options
	var output, guardFile string
	command := &cobra.Command{
		Use:   "replay EVENTS.jsonl.gz...",
		Short: "Feed recorded watch events through the operator's rooms and print what stands after them",
		Long: `Feed recorded watch events, JSON lines {"n","type","object"} in order of receipt, through the rooms of the
operator without any API server, and print what stands after the last one. Several files are one recording.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			if output != "json" && output != "table" {
				return fmt.Errorf("unknown output %q: use json or table", output)
			}
			if options.At < 0 || options.Margin < 0 {
				return fmt.Errorf("--at and --margin cannot be negative")
			}
			if options.Credential != "" && guardFile == "" {
				return fmt.Errorf("--credential needs --guard")
			}
			command.SilenceUsage = true
			if guardFile != "" {
				guard, err := ReadGuard(guardFile)
				if err != nil {
					return err
				}
				options.Guard = guard
			}
			player := NewPlayer(options)
			for _, file := range files {
				if err := player.File(file); err != nil {
					return err
				}
			}
			if output == "json" {
				encoder := json.NewEncoder(command.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(player.Report())
			}
			return printTable(command.OutOrStdout(), player.Report())
		},
	}
	command.Flags().IntVar(&options.At, "at", 0, "stop after the event of this number (0: play all)")
	command.Flags().DurationVar(&options.Margin, "margin", 0, "how long before a pod's creation a kubelet may still have served the older Secret")
	command.Flags().StringVar(&guardFile, "guard", "", "a file with a CredentialGuard: say of each credential whether it may go")
	command.Flags().StringVar(&options.Credential, "credential", "", "judge this credential alone")
	command.Flags().StringVarP(&output, "output", "o", "table", "json or table")
	return command
}

func printTable(out io.Writer, report Report) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(report.NodeSets)) {
		nodeSet := report.NodeSets[name]
		fmt.Fprintf(w, "%s: %d of %d nodes updated\n", name, nodeSet.UpdatedNodes, nodeSet.TotalNodes)
		fmt.Fprintf(w, "  SECRET\tEXPECTED\tNODE\tMAY RUN\n")
		for _, secretName := range slices.Sorted(maps.Keys(nodeSet.Secrets)) {
			secret := nodeSet.Secrets[secretName]
			for _, node := range slices.Sorted(maps.Keys(secret.Nodes)) {
				fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", secretName, secret.ExpectedHash.Short(), node, secret.Nodes[node])
			}
		}
	}
	if len(report.Credentials) > 0 {
		fmt.Fprintf(w, "CREDENTIAL\tMAY GO\tREASON\tMESSAGE\n")
	}
	for _, identity := range slices.Sorted(maps.Keys(report.Credentials)) {
		credential := report.Credentials[identity]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", identity, credential.Verdict, credential.Reason, credential.Message)
	}
	return w.Flush()
}
