package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/operator"
)

func (t *tool) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: between(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			return t.print(fmt.Sprintf("kubectl-rotation %s, %s %s/%s\n", operator.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
		},
	}
}
