package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/report"
)

const (
	// nodesPerPage and mostRuns keep a page light enough for a browser.
	nodesPerPage = 500
	mostRuns     = 50
	// mostNames are how many nodes a sentence names.
	mostNames = 10
)

// view is what a page shows. Everything in it is text that is ready to be read.
type view struct {
	Title, Root, Revision, At string
	// Failure is why nothing can be said; then there is nothing else.
	Failure     string
	Notes       []report.Note
	Credentials []credential
	NodeSets    []nodeSet
	Runs        []run
	MoreRuns    int
	NodeSet     *grid
}

type credential struct {
	ID, Title, Namespace, Verdict, Word, Reason, Message, Since string
	Affected, Unknown                                           int
	Checks                                                      []check
}

type check struct {
	Message, Nodes string
	Fixes          []string
}

type nodeSet struct {
	report.Counts
	ID, Name, Namespace, Link, Drift, Running, Note string
	Missing                                         []string
	Secrets                                         []secret
}

type secret struct {
	report.Counts
	Name, Drift string
}

// grid is one NodeSet, node by node.
type grid struct {
	Missing        []string
	Legend         []version
	Columns        []string
	Rows           []row
	Filters, Pages []link
}

type version struct {
	Secret, Letter, Version, Identities string
	State                               report.State
	Nodes                               int
}

type row struct {
	Name, Why string
	Departed  bool
	Cells     []cell
}

type cell struct {
	State       report.State
	Text, Title string
}

type link struct {
	ID, Text, Link string
	Chosen         bool
}

func base(r report.Report, title string) view {
	notes := slices.Clone(r.Notes)
	slices.SortStableFunc(notes, func(a, b report.Note) int { return -compareBool(a.Serious, b.Serious) })
	return view{Title: title, At: r.CollectedAt.UTC().Format("2006-01-02 15:04:05"), Notes: notes}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// overview is the first page: what may go, how far each NodeSet is, what ran.
func overview(r report.Report) view {
	v := base(r, "Rotation")
	for i, c := range r.Credentials {
		v.Credentials = append(v.Credentials, credentialView(r, c, i))
	}
	rank := map[string]int{string(rotationv1.VerdictHeld): 0, string(rotationv1.VerdictUnknown): 1, string(rotationv1.VerdictSafe): 2}
	slices.SortStableFunc(v.Credentials, func(a, b credential) int { return cmp.Compare(rank[a.Verdict], rank[b.Verdict]) })
	for i, n := range r.NodeSets {
		one := nodeSet{
			Counts: n.Counts, ID: fmt.Sprintf("nodeset-%d", i), Name: n.Name, Namespace: n.Namespace, Missing: n.Missing, Note: n.Note,
			Link: nodeSetPath(n.Namespace, n.Name), Drift: since(r.CollectedAt, n.DriftSince), Running: running(n.Running),
		}
		for _, s := range n.Secrets {
			one.Secrets = append(one.Secrets, secret{s.Counts, s.Name, since(r.CollectedAt, s.DriftSince)})
		}
		v.NodeSets = append(v.NodeSets, one)
	}
	v.Runs, v.MoreRuns = runs(r.NodeSets)
	return v
}

func nodeSetPath(namespace, name string) string {
	return "nodesets/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

func credentialView(r report.Report, c report.Credential, number int) credential {
	answer := r.Answer(c)
	title := c.Kind + "/" + c.Name
	if c.Name == "" {
		title = c.Kind + "? " + c.Identity
	}
	one := credential{
		ID: fmt.Sprintf("credential-%d", number), Title: title, Namespace: c.Namespace, Verdict: string(answer.Verdict),
		Word:   map[rotationv1.HoldVerdict]string{rotationv1.VerdictSafe: "yes", rotationv1.VerdictHeld: "no"}[answer.Verdict],
		Reason: answer.Reason, Message: c.Message, Since: since(r.CollectedAt, c.Since), Affected: c.Affected, Unknown: c.Unknown,
	}
	if one.Word == "" {
		one.Word = "unknown"
	}
	if answer.But != "" {
		one.Message = answer.But
	}
	for _, k := range c.Checks {
		var nodes []string
		for _, node := range k.Nodes {
			nodes = append(nodes, node.NodeSet+"/"+node.Name)
		}
		one.Checks = append(one.Checks, check{k.Message, names(nodes), k.Fixes})
	}
	return one
}

func names(all []string) string {
	if len(all) > mostNames {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:mostNames], ", "), len(all)-mostNames)
	}
	return strings.Join(all, ", ")
}

func running(all []report.Running) string {
	var texts []string
	for _, one := range all {
		text := one.Name
		if one.Limit != "" {
			text += " (limit " + one.Limit + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// nodeSetView is one NodeSet's page; false says that there is none of that name.
func nodeSetView(r report.Report, namespace, name string, query url.Values) (view, bool) {
	v := base(r, "NodeSet "+name)
	at := slices.IndexFunc(r.NodeSets, func(n report.NodeSet) bool { return n.Namespace == namespace && n.Name == name })
	if at < 0 {
		v.Failure = fmt.Sprintf("there is no NodeSet %s in namespace %s", name, namespace)
		return v, false
	}
	n := r.NodeSets[at]
	letters := map[string]map[fleet.Version]string{}
	v.NodeSet = &grid{Missing: n.Missing}
	for _, s := range n.Secrets {
		letters[s.Name] = v.NodeSet.explain(s)
		v.NodeSet.Columns = append(v.NodeSet.Columns, s.Name)
	}
	if len(n.HostSecrets) > 0 {
		v.NodeSet.Columns = append(v.NodeSet.Columns, "its own Secrets")
	}
	path := nodeSetPath(namespace, name)
	nodes := v.NodeSet.choose(n, query, path)
	for _, node := range nodes {
		v.NodeSet.Rows = append(v.NodeSet.Rows, rowOf(node, n, letters))
	}
	v.Runs, v.MoreRuns = runs(r.NodeSets[at : at+1])
	return v, true
}

// explain adds the versions of a Secret to the legend, and gives the letter of each: A is the one in the cluster.
func (g *grid) explain(s report.Secret) map[fleet.Version]string {
	letters := map[fleet.Version]string{}
	add := func(one report.Version, state report.State) {
		if _, there := letters[one.Version]; there {
			return
		}
		letter := string(one.Version)
		if one.Version != fleet.Unknown && one.Version != fleet.None {
			const alphabet = 26
			n := len(g.known(s.Name))
			letter = string(rune('A' + n%alphabet))
			if n >= alphabet {
				letter += strconv.Itoa(n / alphabet)
			}
		}
		letters[one.Version] = letter
		identities := strings.Join(one.Identities, ", ")
		if one.IdentitiesUnknown {
			identities = "not known"
		}
		g.Legend = append(g.Legend, version{s.Name, letter, one.Version.Short(), identities, state, one.Nodes})
	}
	expected := report.Version{Version: s.Expected, Identities: s.ExpectedIdentities}
	for _, one := range s.Versions {
		if one.Version == s.Expected {
			expected = one
		}
	}
	if s.Expected != fleet.Unknown {
		add(expected, report.Updated)
	}
	for _, one := range s.Versions {
		state := report.Behind
		if one.Version == fleet.Unknown {
			state = report.Doubtful
		}
		add(one, state)
	}
	return letters
}

// known are the versions of a Secret in the legend that have a letter of their own.
func (g *grid) known(name string) []version {
	return slices.DeleteFunc(slices.Clone(g.Legend), func(one version) bool {
		return one.Secret != name || one.Letter == string(fleet.Unknown) || one.Letter == string(fleet.None)
	})
}

// choose filters and pages nodes as the query asks: those behind come first, then those in doubt.
func (g *grid) choose(n report.NodeSet, query url.Values, path string) []report.Node {
	state := query.Get("state")
	counts := map[string]int{"": len(n.NodeList)}
	var nodes []report.Node
	for _, node := range n.NodeList {
		counts[string(node.State)]++
		if state == "" || state == string(node.State) {
			nodes = append(nodes, node)
		}
	}
	for _, one := range []struct{ state, text string }{
		{"", "all"}, {string(report.Behind), "behind"}, {string(report.Doubtful), "unknown"}, {string(report.Updated), "updated"},
	} {
		g.Filters = append(g.Filters, link{
			ID: "show-" + one.text, Text: fmt.Sprintf("%s (%d)", one.text, counts[one.state]),
			Link: pathWith(path, one.state, 1), Chosen: one.state == state,
		})
	}
	rank := map[report.State]int{report.Behind: 0, report.Doubtful: 1, report.Updated: 2}
	slices.SortStableFunc(nodes, func(a, b report.Node) int { return cmp.Compare(rank[a.State], rank[b.State]) })
	last := max(1, (len(nodes)+nodesPerPage-1)/nodesPerPage)
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		page = 1
	}
	page = min(max(page, 1), last)
	if last > 1 {
		for i := 1; i <= last; i++ {
			text := strconv.Itoa(i)
			g.Pages = append(g.Pages, link{"page-" + text, text, pathWith(path, state, i), i == page})
		}
	}
	return nodes[(page-1)*nodesPerPage : min(page*nodesPerPage, len(nodes))]
}

func pathWith(path, state string, page int) string {
	query := url.Values{}
	if state != "" {
		query.Set("state", state)
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func rowOf(node report.Node, n report.NodeSet, letters map[string]map[fleet.Version]string) row {
	one := row{Name: node.Name, Departed: node.Departed, Why: node.Gone}
	cells := map[string]report.Cell{}
	var own []report.Cell
	for _, c := range node.Cells {
		if _, shared := letters[c.Secret]; shared {
			cells[c.Secret] = c
		} else {
			own = append(own, c)
		}
		if one.Why == "" && c.State != report.Updated {
			one.Why = c.Why
		}
	}
	for _, s := range n.Secrets {
		c, there := cells[s.Name]
		if !there {
			one.Cells = append(one.Cells, cell{})
			continue
		}
		one.Cells = append(one.Cells, cell{c.State, lettersOf(c, letters[s.Name]), titleOf(c)})
	}
	if len(n.HostSecrets) > 0 {
		one.Cells = append(one.Cells, ownCell(own))
	}
	return one
}

// lettersOf names all versions that the cell may have.
func lettersOf(c report.Cell, letters map[fleet.Version]string) string {
	candidates := c.Candidates
	if len(candidates) == 0 {
		candidates = []fleet.Version{c.Version}
	}
	var all []string
	for _, v := range candidates {
		letter := letters[v]
		if letter == "" {
			letter = v.Short()
		}
		all = append(all, letter)
	}
	slices.Sort(all)
	return strings.Join(all, " or ")
}

func titleOf(c report.Cell) string {
	parts := []string{c.Secret + ": " + string(c.State)}
	if len(c.Identities) > 0 {
		parts = append(parts, "may run "+strings.Join(c.Identities, ", "))
	}
	if c.Deployment != "" {
		parts = append(parts, fmt.Sprintf("by %s, attempt %d", c.Deployment, c.Attempt))
	}
	if c.Why != "" {
		parts = append(parts, c.Why)
	}
	return strings.Join(parts, "; ")
}

// ownCell sums up the Secrets that are made for the node alone: the worst of them.
func ownCell(own []report.Cell) cell {
	if len(own) == 0 {
		return cell{}
	}
	rank := map[report.State]int{report.Behind: 0, report.Doubtful: 1, report.Updated: 2}
	worst := slices.MinFunc(own, func(a, b report.Cell) int { return cmp.Compare(rank[a.State], rank[b.State]) })
	return cell{worst.State, strings.ToLower(string(worst.State)), titleOf(worst)}
}
