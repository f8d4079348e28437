package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

// wanted are the numbers that a stage is to end with.
type wanted struct {
	nodeSet           string
	updated           int
	current, expected string
}

// stages plays the five stages.
func (d *demo) stages(ctx context.Context) error {
	for i, stage := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"two nodes are deployed with user7", d.deployed},
		{"the Secret is rotated", d.rotated},
		{"one node is deployed", d.oneNode},
		{"all nodes are deployed", d.allNodes},
		{"a second NodeSet shares the Secret", d.secondNodeSet},
	} {
		d.say("\nStage %d: %s", i+1, stage.title)
		if err := stage.play(ctx); err != nil {
			return fmt.Errorf("stage %d: %w", i+1, err)
		}
	}
	return d.showNode(filepath.Join(d.bed.NodesDir(), "compute-0"))
}

func (d *demo) deployed(ctx context.Context) error {
	if err := d.setSecret(ctx, "v1", oldUser); err != nil {
		return err
	}
	if err := d.bed.CreateService(ctx, service, []string{secret}, "", false); err != nil {
		return err
	}
	if err := d.bed.CreateNodeSet(ctx, first, []string{"compute-0", "compute-1"}, []string{service}); err != nil {
		return err
	}
	if err := d.bed.CreateGuard(ctx, guard); err != nil {
		return err
	}
	for _, user := range []string{oldUser, newUser} {
		if err := d.bed.CreateCredential(ctx, guard, user); err != nil {
			return err
		}
	}
	if err := d.deploy(ctx, testbed.Deployment{Name: "edpm-initial", NodeSets: []string{first}}); err != nil {
		return err
	}
	if err := d.show(ctx, wanted{first, 2, "v1", "v1"}); err != nil {
		return err
	}
	return d.tryDelete(ctx, "StillInCluster", secret)
}

func (d *demo) rotated(ctx context.Context) error {
	if err := d.setSecret(ctx, "v2", newUser); err != nil {
		return err
	}
	d.say("  Secret %s now carries user8 instead of user7", secret)
	if err := d.show(ctx, wanted{first, 0, "v1", "v2"}); err != nil {
		return err
	}
	return d.tryDelete(ctx, "NodesBehind", "compute-0")
}

func (d *demo) oneNode(ctx context.Context) error {
	if err := d.deploy(ctx, testbed.Deployment{Name: "edpm-c0", NodeSets: []string{first}, Limit: "compute-0"}); err != nil {
		return err
	}
	if err := d.show(ctx, wanted{first, 1, "v1", "v2"}); err != nil {
		return err
	}
	return d.tryDelete(ctx, "NodesBehind", "compute-1")
}

func (d *demo) allNodes(ctx context.Context) error {
	if err := d.deploy(ctx, testbed.Deployment{Name: "edpm-all", NodeSets: []string{first}}); err != nil {
		return err
	}
	if err := d.show(ctx, wanted{first, 2, "v2", "v2"}); err != nil {
		return err
	}
	return d.tryDelete(ctx, "Safe", "")
}

func (d *demo) secondNodeSet(ctx context.Context) error {
	if err := d.bed.CreateNodeSet(ctx, second, []string{"compute-2", "compute-3"}, []string{service}); err != nil {
		return err
	}
	if err := d.show(ctx, wanted{first, 2, "v2", "v2"}, wanted{second, 0, "none", "v2"}); err != nil {
		return err
	}
	d.say("")
	if err := d.deploy(ctx, testbed.Deployment{Name: "edpm-b-initial", NodeSets: []string{second}}); err != nil {
		return err
	}
	return d.show(ctx, wanted{first, 2, "v2", "v2"}, wanted{second, 2, "v2", "v2"})
}

func (d *demo) setSecret(ctx context.Context, name, user string) error {
	version, err := d.bed.SetSecret(ctx, secret, map[string]string{
		key: "[DEFAULT]\ntransport_url=rabbit://" + user + ":pw-of-" + user + "@rabbitmq:5671/\n",
	})
	d.versions[version] = name
	return err
}

// show waits until the cluster shows the wanted numbers, and prints what it shows.
func (d *demo) show(ctx context.Context, wants ...wanted) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODESET\tSECRET\tUPDATED\tALL\tCURRENT\tEXPECTED")
	var notes []string
	for _, want := range wants {
		state, left, err := d.bed.Await(ctx, want.nodeSet, func(s testbed.State) []string { return d.differences(want, s) })
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("NodeSet %s does not show what it should: %s; the operator's last words:\n%s",
				want.nodeSet, strings.Join(left, "; "), d.bed.OperatorLog())
		}
		shown := state.Secrets[secret]
		fmt.Fprintf(w, "%s\t%s\t%d of %d\t%t\t%s\t%s\n", want.nodeSet, secret, state.UpdatedNodes, state.TotalNodes,
			state.AllNodesUpdated, d.name(shown.Current), d.name(shown.Expected))
		for _, node := range slices.Sorted(maps.Keys(shown.Nodes)) {
			notes = append(notes, node+" "+d.runs(shown.Nodes[node]))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	d.say("")
	for line := range strings.Lines(table.String()) {
		d.say("  %s", strings.TrimRight(line, " \n"))
	}
	for _, note := range notes {
		d.say("    %s", note)
	}
	return nil
}

func (d *demo) differences(want wanted, s testbed.State) []string {
	shown := s.Secrets[secret]
	const nodes = 2
	got := wanted{want.nodeSet, s.UpdatedNodes, d.versions[shown.Current], d.versions[shown.Expected]}
	if shown.Current == fleet.None {
		got.current = string(fleet.None)
	}
	if got != want || s.TotalNodes != nodes || s.AllNodesUpdated != (want.updated == nodes) {
		return []string{fmt.Sprintf("expected %+v, seen %+v of %d (all: %t)", want, got, s.TotalNodes, s.AllNodesUpdated)}
	}
	return nil
}

// name is what a version is printed as: the name that the demo gave it, and the beginning of its hash.
func (d *demo) name(v fleet.Version) string {
	return strings.TrimSpace(d.versions[v] + " " + v.Short())
}

func (d *demo) runs(versions fleet.Versions) string {
	if versions.IsOnly(fleet.None) {
		return "has received nothing yet"
	}
	var all []string
	for _, v := range versions {
		all = append(all, d.name(v))
	}
	return "runs " + strings.Join(all, " or ")
}

// password is the part of a URL that nobody is to see.
var password = regexp.MustCompile(`(://[^:/]*):[^@]*@`)

// showNode prints the line of a node's own file that the rotation was about.
func (d *demo) showNode(dir string) error {
	if !d.ansible {
		return nil
	}
	found := errors.New("the node has no file with user8 in it")
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || found == nil {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "user8") {
				d.say("\nOn the disk of compute-0, in %s:\n  %s", strings.TrimPrefix(path, dir), password.ReplaceAllString(strings.TrimSpace(line), "$1:****@"))
				found = nil
			}
		}
		return err
	})
	return errors.Join(err, found)
}
