package demo

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// NewCommand is `rotation-lab demo`.
func NewCommand() *cobra.Command {
	options := Options{Timeout: 30 * time.Second}
	command := &cobra.Command{
		Use:   "demo",
		Short: "Play the five stages of a rotation on a real API server and print what the cluster shows",
		Long: `Play the five stages of a rotation: start a real kube-apiserver and etcd on loopback, the operator, and an executor
that runs Deployments with the real ansible-playbook where it is installed, and print after each stage what the cluster
shows. Afterwards everything stays up to be looked at, until Ctrl-C; with DEMO=once, in CI or where the output is no
terminal, it ends after the last stage.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			command.SilenceUsage = true
			options.Stay = os.Getenv("DEMO") != "once" && os.Getenv("CI") == "" && term.IsTerminal(int(os.Stdout.Fd()))
			return Run(command.Context(), options, command.OutOrStdout())
		},
	}
	command.Flags().StringVar(&options.Manager, "manager", "", "path of the operator's program; without it `manager` next to this program")
	command.Flags().IntVar(&options.Port, "port", 0, "port of the API server on 127.0.0.1; 0 picks a free one")
	return command
}
