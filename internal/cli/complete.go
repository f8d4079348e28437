package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

// complete reads what there is for a moment only: a slow completion is worse than none.
func (t *tool) complete(command *cobra.Command, begun string, of func(report.Report) []string) ([]string, cobra.ShellCompDirective) {
	const patience = 3 * time.Second
	ctx := command.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := t.report(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var fitting []string
	for _, name := range of(r) {
		if strings.HasPrefix(name, begun) {
			fitting = append(fitting, name)
		}
	}
	return fitting, cobra.ShellCompDirectiveNoFileComp
}

func (t *tool) completeNodeSets(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.complete(command, begun, nodeSetNames)
}

func (t *tool) completeCredentials(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.complete(command, begun, func(r report.Report) []string {
		var all []string
		for _, c := range r.Credentials {
			if c.Name != "" {
				all = append(all, strings.ToLower(c.Kind)+"/"+c.Name)
			}
		}
		return all
	})
}

func (t *tool) completeIdentities(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.complete(command, begun, func(r report.Report) []string { return r.WhoUses("").Known })
}

func (t *tool) completeNodes(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return t.complete(command, begun, func(r report.Report) []string {
		var all []string
		for _, n := range r.NodeSets {
			for _, node := range n.NodeList {
				all = append(all, n.Name+"/"+node.Name)
			}
		}
		return all
	})
}
