// Command rotation-lab tries the operator out: on recorded events, on a real API server, with real Ansible.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rotation-operator/rotation-operator/internal/lab/demo"
	"github.com/rotation-operator/rotation-operator/internal/lab/limit"
	"github.com/rotation-operator/rotation-operator/internal/lab/replay"
	"github.com/rotation-operator/rotation-operator/internal/lab/scenario"
	"github.com/rotation-operator/rotation-operator/internal/operator"
)

// interrupted is the exit code of a program that was interrupted, as shells have it.
const interrupted = 130

func main() {
	ctrl.SetLogger(logr.Discard()) // libraries have nothing to say here; errors come back
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx)
	stop()
	os.Exit(code)
}

// run runs the command and gives the exit code.
func run(ctx context.Context) int {
	err := command().ExecuteContext(ctx)
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "Interrupted; everything that was started has ended.")
		return interrupted
	case errors.As(err, &coded):
		fmt.Fprintln(os.Stderr, "Error:", err)
		return coded.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "Error:", err)
	return 1
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "rotation-lab", Short: "Try the rotation operator out", Version: operator.Version, SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(demo.NewCommand(), limit.NewCommand(), replay.NewCommand(), scenario.NewCommand())
	return root
}
