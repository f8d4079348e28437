package cli

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

// didYouMean names those that are near, ready to follow a sentence.
func didYouMean(word string, known []string) string {
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, name := range known {
		d := distance(strings.ToLower(word), strings.ToLower(name))
		if d <= max(2, len(word)/3) || strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
			found = append(found, near{name, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	var nearest []string
	for _, one := range found[:min(len(found), 3)] {
		if !slices.Contains(nearest, one.name) {
			nearest = append(nearest, one.name)
		}
	}
	if len(nearest) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(nearest, " or ") + "?"
}

// distance counts the characters that have to be changed, put in or taken out.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	line := make([]int, len(to)+1)
	for i := range line {
		line[i] = i
	}
	for i, x := range from {
		diagonal := line[0]
		line[0] = i + 1
		for k, y := range to {
			cost := diagonal
			if x != y {
				cost++
			}
			diagonal = line[k+1]
			line[k+1] = min(cost, line[k]+1, diagonal+1)
		}
	}
	return line[len(to)]
}

// nodeSetNames are the names in the report.
func nodeSetNames(r report.Report) []string {
	var all []string
	for _, nodeSet := range r.NodeSets {
		if !slices.Contains(all, nodeSet.Name) {
			all = append(all, nodeSet.Name)
		}
	}
	return all
}

// selected narrows the report to the NodeSets of that name and the selector. Credentials stay: they rest on all NodeSets.
func (t *tool) selected(r report.Report, name string) (report.Report, error) {
	selector, err := labels.Parse(t.selector)
	if err != nil {
		return r, misused("the selector makes no sense: %v", err)
	}
	name = bare(name, "openstackdataplanenodeset", "openstackdataplanenodesets", "osdpns", "nodeset")
	kept := []report.NodeSet{}
	for _, nodeSet := range r.NodeSets {
		if (name == "" || nodeSet.Name == name) && selector.Matches(labels.Set(nodeSet.Labels)) {
			kept = append(kept, nodeSet)
		}
	}
	switch {
	case len(kept) == 0 && name != "":
		return r, t.unknownNodeSet(r, name)
	case len(kept) == 0 && !selector.Empty():
		return r, failure{Failed, fmt.Sprintf("no NodeSet has the labels %s", t.selector)}
	}
	r.NodeSets = kept
	return r, nil
}

func (t *tool) unknownNodeSet(r report.Report, name string) error {
	text := fmt.Sprintf("there is no NodeSet %q%s%s", name, t.where(), didYouMean(name, nodeSetNames(r)))
	for _, note := range r.Notes {
		if note.Serious {
			text += "\n" + note.Text
			return failure{NotKnown, text}
		}
	}
	return failure{Failed, text}
}

// where says in which namespace nothing was found.
func (t *tool) where() string {
	if t.allNamespaces {
		return " in any namespace"
	}
	namespace, err := t.namespace()
	if err != nil {
		return ""
	}
	return " in namespace " + namespace
}

// bare takes the kind off KIND/NAME, where it is one of those.
func bare(name string, kinds ...string) string {
	kind, rest, found := strings.Cut(name, "/")
	if found && slices.Contains(kinds, strings.ToLower(kind)) {
		return rest
	}
	return name
}

// titleOf names a credential, by its identity where it has no object.
func titleOf(c report.Credential) string {
	if c.Name == "" {
		return c.Kind + "? " + c.Identity
	}
	return c.Kind + "/" + c.Name
}
