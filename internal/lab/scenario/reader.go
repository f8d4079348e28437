package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader goes through the nodes of a YAML document and collects everything that is wrong.
type reader struct {
	file     string
	problems []Problem
}

// place is a node with the way to it.
type place struct {
	key  string
	node *yaml.Node
}

func (p place) at() Position { return Position{p.node.Line, p.node.Column} }

func (p place) in(key string, node *yaml.Node) place {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if p.key != "" && !strings.HasPrefix(key, "[") {
		key = "." + key
	}
	return place{p.key + key, node}
}

func (r *reader) problem(at Position, key, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, at, key, fmt.Sprintf(format, args...)})
}

// take reads a value into where it belongs.
type take func(place)

// fields are the keys that a mapping may have. One that begins with "!" must be there.
type fields map[string]take

// mapping reads a mapping with known keys.
func (r *reader) mapping(p place, known fields) {
	takes := fields{}
	var names []string
	for name, take := range known {
		name = strings.TrimPrefix(name, "!")
		takes[name] = take
		names = append(names, name)
	}
	slices.Sort(names)
	seen := r.pairs(p, func(key Word, value place) {
		take, ok := takes[key.Text]
		if !ok {
			r.problem(key.At, value.key, "unknown key %q%s", key.Text, suggestion(key.Text, names))
			return
		}
		take(value)
	})
	if seen == nil {
		return
	}
	for _, name := range names {
		if _, required := known["!"+name]; required && !slices.Contains(seen, name) {
			r.problem(p.at(), p.key, "the key %q is missing", name)
		}
	}
}

// pairs reads a mapping with any keys and gives them; nil where it is none.
func (r *reader) pairs(p place, take func(Word, place)) []string {
	if p.node.Kind != yaml.MappingNode {
		r.problem(p.at(), p.key, "must be a mapping, not %s", kindOf(p.node))
		return nil
	}
	seen, lines := []string{}, map[string]int{}
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		node := p.node.Content[i]
		key := Word{node.Value, Position{node.Line, node.Column}}
		value := p.in(key.Text, p.node.Content[i+1])
		if node.Kind != yaml.ScalarNode || node.Tag != "!!str" {
			r.problem(key.At, value.key, "a key must be text, not %s", kindOf(node))
			continue
		}
		if line, twice := lines[key.Text]; twice {
			r.problem(key.At, value.key, "the key occurs twice, first on line %d", line)
			continue
		}
		lines[key.Text] = key.At.Line
		seen = append(seen, key.Text)
		take(key, value)
	}
	return seen
}

// list reads a list.
func (r *reader) list(p place, take take) {
	if p.node.Kind != yaml.SequenceNode {
		r.problem(p.at(), p.key, "must be a list, not %s", kindOf(p.node))
		return
	}
	for i, node := range p.node.Content {
		take(p.in("["+strconv.Itoa(i+1)+"]", node))
	}
}

// word reads text, which may not be empty.
func (r *reader) word(into *Word) take {
	return func(p place) {
		if r.isText(p) && r.isFilled(p) {
			*into = Word{p.node.Value, p.at()}
		}
	}
}

// oneOf reads one of several words.
func (r *reader) oneOf(into *Word, words ...string) take {
	return func(p place) {
		if !r.isText(p) {
			return
		}
		if !slices.Contains(words, p.node.Value) {
			r.problem(p.at(), p.key, "%q is not one of %s%s", p.node.Value, strings.Join(words, ", "), suggestion(p.node.Value, words))
			return
		}
		*into = Word{p.node.Value, p.at()}
	}
}

// words reads a list of texts, each of which may occur once.
func (r *reader) words(into *[]Word) take {
	return func(p place) {
		r.list(p, func(item place) {
			var word Word
			r.word(&word)(item)
			if word.Text == "" {
				return
			}
			if slices.ContainsFunc(*into, func(w Word) bool { return w.Text == word.Text }) {
				r.problem(word.At, item.key, "%q occurs twice", word.Text)
				return
			}
			*into = append(*into, word)
		})
	}
}

// text reads text, which may be empty.
func (r *reader) text(into *string) take {
	return func(p place) {
		if r.isText(p) {
			*into = p.node.Value
		}
	}
}

func (r *reader) isText(p place) bool {
	if p.node.Kind == yaml.ScalarNode && p.node.Tag == "!!str" {
		return true
	}
	hint := ""
	if p.node.Kind == yaml.ScalarNode && p.node.Tag != "!!null" {
		hint = "; put it in quotes"
	}
	r.problem(p.at(), p.key, "must be text, not %s%s", kindOf(p.node), hint)
	return false
}

func (r *reader) isFilled(p place) bool {
	if p.node.Value == "" {
		r.problem(p.at(), p.key, "must not be empty")
	}
	return p.node.Value != ""
}

// isNotEmpty finds fault with a list that has nothing in it.
func (r *reader) isNotEmpty(p place, message string) {
	if p.node.Kind == yaml.SequenceNode && len(p.node.Content) == 0 {
		r.problem(p.at(), p.key, "%s", message)
	}
}

func (r *reader) flag(into **bool) take {
	return func(p place) {
		var value bool
		if p.node.Kind != yaml.ScalarNode || p.node.Tag != "!!bool" || p.node.Decode(&value) != nil {
			r.problem(p.at(), p.key, "must be true or false, not %s", kindOf(p.node))
			return
		}
		*into = &value
	}
}

func (r *reader) count(into **int) take {
	return func(p place) {
		var value int
		if p.node.Kind != yaml.ScalarNode || p.node.Tag != "!!int" || p.node.Decode(&value) != nil || value < 0 {
			r.problem(p.at(), p.key, "must be a number of nodes, not %s", kindOf(p.node))
			return
		}
		*into = &value
	}
}

func kindOf(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Tag == "!!null":
		return "nothing"
	case node.Tag == "!!bool":
		return "true or false (" + node.Value + ")"
	case node.Tag == "!!int", node.Tag == "!!float":
		return "the number " + node.Value
	case node.Tag == "!!str":
		return fmt.Sprintf("the text %q", node.Value)
	}
	return fmt.Sprintf("%s (%s)", node.Value, node.Tag)
}

// suggestion is the nearest of the words, as the end of a message, where one is near.
func suggestion(word string, words []string) string {
	const far = 3
	best, least := "", far
	for _, candidate := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least && d < len([]rune(candidate)) {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// distance is how many letters have to be put in, taken out, replaced or swapped with their neighbour to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	d := make([][]int, len(x)+1)
	for i := range d {
		d[i] = make([]int, len(y)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(x)][len(y)]
}
