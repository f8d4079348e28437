package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rotation-operator/rotation-operator/config/guards"
)

// Words of the format.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

// ReadFile reads and checks a scenario file. The error joins a Problem for everything that is wrong.
func ReadFile(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse reads and checks the text of a scenario file; see ReadFile.
func Parse(path string, text []byte) (*File, error) {
	r := &reader{file: path}
	file := &File{Path: path}
	if root := r.document(text); root != nil {
		r.read(place{node: root}, file)
		if file.Name == "" {
			file.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		}
		newChecker(r, file).check()
	}
	slices.SortStableFunc(r.problems, compareProblems)
	errs := make([]error, len(r.problems))
	for i, problem := range r.problems {
		errs[i] = problem
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return file, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// document parses the YAML and gives its one document.
func (r *reader) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var document, another yaml.Node
	err := decoder.Decode(&document)
	if err == nil && !errors.Is(decoder.Decode(&another), io.EOF) {
		line := max(another.Line, 1)
		r.problem(Position{line, 1}, "", "there is a second document; put it in a file of its own")
		return nil
	}
	switch {
	case errors.Is(err, io.EOF):
		r.problem(Position{1, 1}, "", "the file is empty")
		return nil
	case err != nil:
		at := Position{1, 1}
		match := yamlLine.FindStringSubmatch(err.Error())
		if len(match) > 1 && match[1] != "" {
			at.Line, _ = strconv.Atoi(match[1])
		}
		r.problem(at, "", "not YAML: %s", yamlLine.ReplaceAllString(err.Error(), ""))
		return nil
	}
	return document.Content[0]
}

func (r *reader) read(p place, file *File) {
	r.mapping(p, fields{
		"name":     r.text(&file.Name),
		"services": r.services(&file.Services),
		"secrets":  r.secrets(&file.Secrets),
		"guard":    r.oneOf(&file.Guard, guards.Names()...), "credentials": r.words(&file.Credentials),
		"!nodeSets": func(p place) {
			r.pairs(p, func(name Word, p place) { file.NodeSets = append(file.NodeSets, r.nodeSet(name, p)) })
		},
		"!steps": func(p place) {
			r.list(p, func(p place) {
				action := r.step(p)
				file.Steps = append(file.Steps, Step{Number: len(file.Steps) + 1, At: p.at(), Action: action})
			})
		},
	})
}

func (r *reader) services(into *[]Service) take {
	return func(p place) {
		r.pairs(p, func(name Word, p place) {
			service := Service{Name: name}
			var global *bool
			r.mapping(p, fields{"!secrets": r.words(&service.Secrets), "type": r.text(&service.Type), "global": r.flag(&global)})
			service.Global = global != nil && *global
			*into = append(*into, service)
		})
	}
}

func (r *reader) secrets(into *[]Version) take {
	return func(p place) {
		r.pairs(p, func(name Word, p place) {
			version := Version{Secret: name}
			r.mapping(p, fields{"as": r.word(&version.As), "!data": r.data(&version.Data)})
			*into = append(*into, version)
		})
	}
}

var dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

func (r *reader) data(into *map[string]string) take {
	return func(p place) {
		*into = map[string]string{}
		r.pairs(p, func(key Word, p place) {
			if !dataKey.MatchString(key.Text) {
				r.problem(key.At, p.key, "%q cannot be a key of a Secret: use letters, digits, dashes, dots and underscores", key.Text)
			}
			var value string
			r.text(&value)(p)
			(*into)[key.Text] = value
		})
	}
}

func (r *reader) nodeSet(name Word, p place) NodeSet {
	nodeSet := NodeSet{Name: name}
	r.mapping(p, fields{"!nodes": r.words(&nodeSet.Nodes), "!services": r.words(&nodeSet.Services)})
	return nodeSet
}

// step reads a mapping of one key, the action.
func (r *reader) step(p place) Action {
	actions := map[string]func(place) Action{
		"deploy": r.deploy, "rotate": r.rotate, "start": r.start, "finish": r.finish,
		"operator": r.operator, "node": r.nodeStep, "delete": r.delete, "expect": r.expect,
		"attempt-delete": r.attemptDelete, "attest": r.attest, "override": r.override,
	}
	var names []string
	for name := range actions {
		names = append(names, name)
	}
	slices.Sort(names)
	var action Action
	var first Word
	seen := r.pairs(p, func(key Word, p place) {
		read, ok := actions[key.Text]
		switch {
		case !ok:
			r.problem(key.At, p.key, "unknown step %q%s", key.Text, suggestion(key.Text, names))
		case first.Text != "":
			r.problem(key.At, p.key, "a step has one action, and this one has %q already; begin the next with a dash", first.Text)
		default:
			first, action = key, read(p)
		}
	})
	if seen != nil && len(seen) == 0 {
		r.problem(p.at(), p.key, "the step is empty; it must be one of %s", strings.Join(names, ", "))
	}
	return action
}

func (r *reader) deployment(d *Deployment) fields {
	return fields{
		"!name": r.word(&d.Name), "limit": r.text(&d.Limit), "tags": r.text(&d.Tags), "skipTags": r.text(&d.SkipTags),
		"services": r.words(&d.Services),
		"!nodeSets": func(p place) {
			r.words(&d.NodeSets)(p)
			r.isNotEmpty(p, "name one NodeSet at least")
		},
	}
}

func (r *reader) deploy(p place) Action {
	var d Deploy
	known := r.deployment(&d.Deployment)
	known["attempts"] = func(p place) {
		r.list(p, func(p place) {
			var outcome Word
			if r.oneOf(&outcome, succeeded, failed)(p); outcome.Text != "" {
				d.Attempts = append(d.Attempts, outcome)
			}
		})
		for _, early := range d.Attempts[:max(len(d.Attempts)-1, 0)] {
			if early.Text == succeeded {
				r.problem(early.At, p.key, "an attempt that succeeded is the last; nothing can follow it")
			}
		}
		r.isNotEmpty(p, "there must be one attempt at least")
	}
	known["hosts"] = r.hosts(&d.Hosts)
	r.mapping(p, known)
	return d
}

func (r *reader) start(p place) Action {
	var s Start
	r.mapping(p, r.deployment(&s.Deployment))
	return s
}

func (r *reader) finish(p place) Action {
	var f Finish
	r.mapping(p, fields{"!name": r.word(&f.Name), "!outcome": r.oneOf(&f.Outcome, succeeded, failed), "hosts": r.hosts(&f.Hosts)})
	return f
}

func (r *reader) hosts(into *[]HostOutcome) take {
	return func(p place) {
		r.pairs(p, func(host Word, p place) {
			outcome := HostOutcome{Host: host}
			r.oneOf(&outcome.Outcome, "ok", "failed", "unreachable", "unlisted")(p)
			*into = append(*into, outcome)
		})
	}
}

func (r *reader) rotate(p place) Action {
	var v Version
	r.mapping(p, fields{"!secret": r.word(&v.Secret), "as": r.word(&v.As), "!data": r.data(&v.Data)})
	return Rotate{v}
}

func (r *reader) operator(p place) Action {
	var o Operator
	r.oneOf(&o.Verb, "stop", "start", "restart", "kill")(p)
	return o
}

func (r *reader) nodeStep(p place) Action {
	var n Node
	r.mapping(p, fields{"!nodeSet": r.word(&n.NodeSet), "add": r.word(&n.Add), "remove": r.word(&n.Remove)})
	if p.node.Kind == yaml.MappingNode && (n.Add.Text == "") == (n.Remove.Text == "") {
		r.problem(p.at(), p.key, `must have either "add" or "remove"`)
	}
	return n
}

// kinds are those that a step can delete.
var kinds = []string{
	"OpenStackDataPlaneDeployment", "OpenStackDataPlaneNodeSet", "OpenStackDataPlaneService", "Secret", "ConfigMap", "Job",
}

func (r *reader) delete(p place) Action {
	var d Delete
	r.mapping(p, fields{"!kind": r.oneOf(&d.Kind, kinds...), "!name": r.word(&d.Name)})
	return d
}

func (r *reader) expect(p place) Action {
	if p.node.Kind == yaml.MappingNode && slices.ContainsFunc(p.node.Content, func(n *yaml.Node) bool { return n.Value == "credential" }) {
		return r.expectCredential(p)
	}
	var e Expect
	r.mapping(p, fields{
		"!nodeSet": r.word(&e.NodeSet), "totalNodes": r.count(&e.TotalNodes), "updatedNodes": r.count(&e.UpdatedNodes),
		"allNodesUpdated": r.flag(&e.AllNodesUpdated),
		"currentHash":     r.aliases(&e.CurrentHash), "expectedHash": r.aliases(&e.ExpectedHash),
		"nodes": func(p place) {
			r.pairs(p, func(node Word, p place) {
				r.pairs(p, func(secret Word, p place) {
					c := Candidates{Node: node, Secret: secret}
					r.words(&c.Aliases)(p)
					r.isNotEmpty(p, `name one version at least; "none" is nothing delivered, "?" is not known`)
					e.Nodes = append(e.Nodes, c)
				})
			})
		},
	})
	return e
}

func (r *reader) aliases(into *[]SecretAlias) take {
	return func(p place) {
		r.pairs(p, func(secret Word, p place) {
			alias := SecretAlias{Secret: secret}
			r.word(&alias.Alias)(p)
			*into = append(*into, alias)
		})
	}
}

// String says the step in one line.
func (d Deployment) String() string {
	text := fmt.Sprintf("%s on %s", d.Name, list(d.NodeSets))
	for _, option := range []struct{ name, value string }{
		{"limit", d.Limit}, {"tags", d.Tags}, {"skip tags", d.SkipTags}, {"services", list(d.Services)},
	} {
		if option.value != "" {
			text += fmt.Sprintf(", %s %s", option.name, option.value)
		}
	}
	return text
}

// String says the step in one line.
func (d Deploy) String() string {
	text := "deploy " + d.Deployment.String()
	if len(d.Attempts) > 0 {
		text += ": " + list(d.Attempts)
	}
	return text + hostsText(d.Hosts)
}

// String says the step in one line.
func (s Start) String() string { return "start " + s.Deployment.String() }

// String says the step in one line.
func (f Finish) String() string {
	return fmt.Sprintf("finish %s: %s%s", f.Name, f.Outcome, hostsText(f.Hosts))
}

// String says the step in one line.
func (r Rotate) String() string {
	if r.As.Text == "" {
		return "rotate " + r.Secret.Text
	}
	return fmt.Sprintf("rotate %s to %s", r.Secret, r.As)
}

// String says the step in one line.
func (o Operator) String() string { return o.Verb.Text + " the operator" }

// String says the step in one line.
func (n Node) String() string {
	if n.Add.Text != "" {
		return fmt.Sprintf("add node %s to %s", n.Add, n.NodeSet)
	}
	return fmt.Sprintf("remove node %s from %s", n.Remove, n.NodeSet)
}

// String says the step in one line.
func (d Delete) String() string { return fmt.Sprintf("delete %s %s", d.Kind, d.Name) }

// String says the step in one line.
func (e Expect) String() string { return "expect of " + e.NodeSet.Text }

func list(words []Word) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = word.Text
	}
	return strings.Join(texts, ", ")
}

func hostsText(hosts []HostOutcome) string {
	texts := make([]string, len(hosts))
	for i, host := range hosts {
		texts[i] = host.Host.Text + " " + host.Outcome.Text
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}
