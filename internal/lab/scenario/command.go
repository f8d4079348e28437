package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// UsageError is wrong input: of the command or of a file. It goes with exit code 2.
type UsageError struct{ error }

// ExitCode is what the program ends with.
func (UsageError) ExitCode() int { return 2 }

// Unwrap gives what is wrong.
func (e UsageError) Unwrap() error { return e.error }

// NewCommand is `rotation-lab scenario`.
func NewCommand() *cobra.Command {
	var options Options
	var output string
	command := &cobra.Command{
		Use:   "scenario FILE...",
		Short: "Run scenario files against a real API server and the real operator, and check their expectations",
		Long: `Run scenario files, each in a namespace of its own, against the embedded control plane and the real operator, and
check their expectations. Everything that is wrong with a file is said before anything runs.

Exit codes: 0 every expectation holds, 1 one does not or a step could not be taken, 2 something is wrong with the
command or a file.`,
		Example: `  rotation-lab scenario test/scenarios/five-stages.yaml
  rotation-lab scenario -o json test/scenarios/*.yaml`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return UsageError{errors.New("name one scenario file at least")}
			}
			return nil
		},
		RunE: func(command *cobra.Command, paths []string) error {
			if output != "json" && output != "text" {
				return UsageError{fmt.Errorf("unknown output %q: use json or text", output)}
			}
			if options.Timeout <= 0 {
				return UsageError{fmt.Errorf("--timeout must be more than %s", options.Timeout)}
			}
			options.JSON = output == "json"
			command.SilenceUsage = true
			files, err := readFiles(paths)
			if err != nil {
				return UsageError{err}
			}
			return Run(command.Context(), files, options, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Manager, "manager", "", "path of the operator's program; without it `manager` next to this program")
	flags.BoolVar(&options.Ansible, "ansible", false, "run the real ansible-playbook instead of scripted runs")
	flags.DurationVar(&options.Timeout, "timeout", 30*time.Second, "how long one expectation is waited for")
	flags.StringVarP(&output, "output", "o", "text", "json or text")
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	return command
}

// readFiles reads all files, and says of all of them what is wrong.
func readFiles(paths []string) ([]*File, error) {
	var files []*File
	var errs []error
	for _, path := range paths {
		file, err := ReadFile(path)
		files, errs = append(files, file), append(errs, err)
	}
	return files, errors.Join(errs...)
}
