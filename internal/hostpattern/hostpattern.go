// Package hostpattern works out which hosts an Ansible run was pointed at, from its inventory and command line, as
// ansible-core 2.12 to 2.18 does it. What it cannot tell for sure it says so.
package hostpattern

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Group is a group of an inventory, its hosts in order. Children are names of other groups; with any, nothing is decided.
type Group struct {
	Name     string
	Hosts    []string
	Children []string
}

// Inventory is what Ansible reads. The order of everything counts: for subscripts.
type Inventory struct {
	// Hosts are in no group.
	Hosts  []string
	Groups []Group
}

// Selection says which hosts a run was pointed at.
type Selection struct {
	// Surely are the hosts proved to be in the run, Perhaps those that could be; both sorted, Surely a part of Perhaps.
	Surely, Perhaps []string
	// Decided says that both are exactly the hosts of the run.
	Decided bool
	// Err is what makes Ansible stop before any task; then no host is in the run. Empty where nothing does.
	Err string
	// Why says in a sentence what could not be decided, where nothing was.
	Why string
}

// errUndecided wraps what cannot be decided; every other error makes Ansible stop before any task.
var errUndecided = errors.New("cannot decide")

func undecided(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUndecided}, args...)...)
}

// Resolve gives the hosts that a limit chooses from the inventory for a play for all hosts.
func Resolve(inventory Inventory, limit string) Selection {
	return resolve(inventory, "all", limit, true)
}

// ResolvePlay gives the hosts of one play: those that its hosts pattern and the limit have in common. Nil is no limit.
func ResolvePlay(inventory Inventory, playHosts string, limit *string) Selection {
	if limit == nil {
		return resolve(inventory, playHosts, "", false)
	}
	return resolve(inventory, playHosts, *limit, true)
}

// Undecided is the selection of a run of which nothing can be said, for the reason given.
func Undecided(inventory Inventory, why string) Selection {
	return selection(inventory, nil, undecided("%s", why))
}

// ResolveRun gives the hosts of a run whose plays are for playHosts, with the given composed command line (the value
// of RUNNER_CMDLINE).
func ResolveRun(inventory Inventory, playHosts, commandLine string) Selection {
	line, err := ParseCommandLine(commandLine)
	if err != nil {
		return selection(inventory, nil, err)
	}
	return resolve(inventory, playHosts, line.Limit, line.HasLimit)
}

func resolve(inventory Inventory, playHosts, limit string, limited bool) Selection {
	index, err := newIndex(inventory)
	if err != nil {
		return selection(inventory, nil, err)
	}
	hosts, err := index.hostsOf(playHosts)
	if err != nil {
		return selection(inventory, nil, err)
	}
	if pieces, err := splitLimit(limit); err != nil {
		return selection(inventory, nil, err)
	} else if limited && len(pieces) > 0 {
		chosen, err := index.evaluate(pieces)
		if err != nil {
			return selection(inventory, nil, err)
		}
		in := make(map[string]bool, len(chosen))
		for _, host := range chosen {
			in[host] = true
		}
		if len(index.hosts) > 0 && !slices.ContainsFunc(index.hosts, func(host string) bool { return in[host] }) {
			return selection(inventory, nil, errors.New("the limit leaves no hosts to target"))
		}
		hosts = slices.DeleteFunc(hosts, func(host string) bool { return !in[host] })
	}
	return selection(inventory, hosts, nil)
}

// hostsOf evaluates the hosts of a play. A host that only Ansible knows of is none.
func (x *index) hostsOf(pattern string) ([]string, error) {
	pieces, err := splitLimit(pattern)
	if err != nil {
		return nil, err
	}
	found, err := x.evaluate(pieces)
	return slices.DeleteFunc(found, func(host string) bool { return !x.isHost[host] }), err
}

func selection(inventory Inventory, hosts []string, err error) Selection {
	switch {
	case err == nil:
		sorted := slices.Compact(slices.Sorted(slices.Values(hosts)))
		return Selection{Surely: sorted, Perhaps: slices.Clone(sorted), Decided: true}
	case errors.Is(err, errUndecided):
		var all []string
		all = append(all, inventory.Hosts...)
		for _, group := range inventory.Groups {
			all = append(all, group.Hosts...)
		}
		slices.Sort(all)
		return Selection{Perhaps: slices.Compact(all), Why: err.Error()}
	default:
		return Selection{Decided: true, Err: err.Error()}
	}
}

// Fold writes a limit that chooses exactly the given hosts from the inventory, safe in a composed command line.
func Fold(inventory Inventory, hosts []string) (string, error) {
	limit := strings.Join(hosts, ",")
	got := ResolveRun(inventory, "all", "--limit "+limit)
	want := slices.Compact(slices.Sorted(slices.Values(hosts)))
	if len(hosts) == 0 || !got.Decided || !slices.Equal(got.Surely, want) {
		return "", fmt.Errorf("no limit can name exactly %d hosts: %s%s", len(hosts), got.Why, got.Err)
	}
	return limit, nil
}
