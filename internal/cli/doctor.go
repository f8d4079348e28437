package cli

import (
	"github.com/spf13/cobra"
)

func (t *tool) doctorCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "doctor", Short: "Check that the operator is installed wholly, and what you may do",
		Args: between(0, 0, ""),
		RunE: func(command *cobra.Command, _ []string) error { return nil },
	}
	return t.addFlags(command, outputs)
}
