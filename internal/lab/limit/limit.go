// Package limit is the command that says which hosts a limit chooses.
package limit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

// request is one line of input. What else a line holds is left alone.
type request struct {
	Inventory json.RawMessage `json:"inventory"`
	// Limit is an argument of --limit, null or absent for none.
	Limit *string `json:"limit"`
	// PlayHosts is the play's hosts pattern, all where it is absent.
	PlayHosts playHosts `json:"play_hosts"`
	// Env are settings of Ansible other than its defaults; with any, nothing is decided.
	Env map[string]string `json:"env"`
	// Spec are the fields of a Deployment, instead of Limit.
	Spec *struct {
		Tags     string `json:"ansibleTags"`
		Limit    string `json:"ansibleLimit"`
		SkipTags string `json:"ansibleSkipTags"`
	} `json:"spec"`
}

// playHosts is a hosts pattern: a string, or a list of which every item is one.
type playHosts string

// UnmarshalJSON reads either form.
func (p *playHosts) UnmarshalJSON(raw []byte) error {
	var list []string
	if err := json.Unmarshal(raw, &list); err == nil {
		*p = playHosts(strings.Join(list, ","))
		return nil
	}
	return json.Unmarshal(raw, (*string)(p))
}

// answer is one line of output.
type answer struct {
	Surely  []string `json:"surely"`
	Perhaps []string `json:"perhaps"`
	Decided bool     `json:"decided"`
	Error   *string  `json:"error"`
}

// maxLine bounds a line of input, in bytes.
const maxLine = 64 << 20

// NewCommand is `rotation-lab limit`.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "limit [FILE...]",
		Short: "Say which hosts Ansible's limits choose",
		Long: `Read JSON lines {"inventory": {"hosts", "groups", "children"}, "limit"} from the files or standard input, or with
"spec": {"ansibleTags", "ansibleLimit", "ansibleSkipTags"} instead of "limit", and print a line for each:
{"surely", "perhaps", "decided", "error"}. The order of groups counts. "play_hosts" is the play's hosts pattern, where
it is not for all hosts.`,
		RunE: func(command *cobra.Command, files []string) error {
			command.SilenceUsage = true
			out := bufio.NewWriter(command.OutOrStdout())
			if len(files) == 0 {
				return errors.Join(answerAll("standard input", command.InOrStdin(), out), out.Flush())
			}
			for _, name := range files {
				file, err := os.Open(name)
				if err != nil {
					return errors.Join(err, out.Flush())
				}
				err = errors.Join(answerAll(name, file, out), file.Close(), out.Flush())
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func answerAll(name string, in io.Reader, out io.Writer) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for line := 1; scanner.Scan(); line++ {
		if len(scanner.Bytes()) == 0 {
			continue
		}
		var r request
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, line, err)
		}
		selection, err := r.resolve()
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", name, line, err)
		}
		a := answer{Surely: append([]string{}, selection.Surely...), Perhaps: append([]string{}, selection.Perhaps...), Decided: selection.Decided}
		if selection.Err != "" {
			a.Error = &selection.Err
		}
		if err := encoder.Encode(a); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r request) resolve() (hostpattern.Selection, error) {
	if len(r.Inventory) == 0 {
		return hostpattern.Selection{}, errors.New("there is no inventory")
	}
	if r.Limit != nil && r.Spec != nil {
		return hostpattern.Selection{}, errors.New("give a limit or a spec, not both")
	}
	inventory, err := hostpattern.ParseInventory(r.Inventory)
	switch {
	case err != nil:
		return hostpattern.Selection{}, err
	case r.Spec != nil:
		return hostpattern.ResolveRun(inventory, "all", hostpattern.Compose(r.Spec.Tags, r.Spec.Limit, r.Spec.SkipTags)), nil
	case len(r.Env) > 0:
		return hostpattern.Undecided(inventory, "settings of Ansible may change the answer"), nil
	case r.PlayHosts == "":
		r.PlayHosts = "all"
	}
	return hostpattern.ResolvePlay(inventory, string(r.PlayHosts), r.Limit), nil
}
