package hostpattern

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// index is an inventory as Ansible keeps it: the groups all and ungrouped first.
type index struct {
	hosts   []string
	isHost  map[string]bool
	groups  []Group
	isGroup map[string]bool
}

func newIndex(inventory Inventory) (*index, error) {
	x := &index{isHost: map[string]bool{}, isGroup: map[string]bool{}}
	everything := Group{Name: "all"}
	add := func(hosts []string) {
		for _, host := range hosts {
			if !x.isHost[host] {
				x.isHost[host] = true
				everything.Hosts = append(everything.Hosts, host)
			}
		}
	}
	add(inventory.Hosts)
	for _, group := range inventory.Groups {
		if len(group.Children) > 0 || group.Name == "all" || group.Name == "ungrouped" {
			return nil, undecided("group %s has child groups or is one of Ansible's own", group.Name)
		}
		add(group.Hosts)
	}
	x.hosts = everything.Hosts
	x.groups = append([]Group{everything, {Name: "ungrouped", Hosts: ungrouped(inventory)}}, inventory.Groups...)
	for i := range x.groups {
		x.isGroup[x.groups[i].Name] = true
	}
	return x, nil
}

func ungrouped(inventory Inventory) []string {
	grouped := map[string]bool{}
	for _, group := range inventory.Groups {
		for _, host := range group.Hosts {
			grouped[host] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(inventory.Hosts), func(host string) bool { return grouped[host] })
}

// evaluate takes all regular pieces, then intersects, then excludes, whatever their order.
func (x *index) evaluate(pieces []string) ([]string, error) {
	var regular, both, without []string
	for _, piece := range pieces {
		switch piece[0] {
		case '!':
			without = append(without, piece)
		case '&':
			both = append(both, piece)
		default:
			regular = append(regular, piece)
		}
	}
	if len(regular) == 0 {
		regular = []string{"all"}
	}
	var hosts []string
	for _, piece := range slices.Concat(regular, both, without) {
		if x.isHost[piece] {
			hosts = append(hosts, piece)
			continue
		}
		found, err := x.matchOne(piece)
		if err != nil {
			return nil, err
		}
		in := make(map[string]bool, len(found))
		for _, host := range found {
			in[host] = true
		}
		switch piece[0] {
		case '!':
			hosts = slices.DeleteFunc(hosts, func(host string) bool { return in[host] })
		case '&':
			hosts = slices.DeleteFunc(hosts, func(host string) bool { return !in[host] })
		default:
			hosts = append(hosts, found...)
		}
	}
	return hosts, nil
}

// subscripted is an expression with one index or a range behind it.
var subscripted = regexp.MustCompile(`^(.+)\[(?:(-?[0-9]+)|([0-9]+)[:-]([0-9]*))\]$`)

// matchOne lists what one piece stands for, duplicates included: subscripts count them.
func (x *index) matchOne(piece string) ([]string, error) {
	expression := piece
	if piece[0] == '!' || piece[0] == '&' {
		expression = piece[1:]
	}
	if expression == "" {
		return nil, fmt.Errorf("a lone %s makes Ansible crash", piece)
	}
	if m := subscripted.FindStringSubmatch(expression); m != nil && expression[0] != '~' {
		found, err := x.enumerate(m[1])
		if err != nil || len(found) == 0 {
			return nil, err
		}
		return applySubscript(found, m[2], m[3], m[4], piece)
	}
	return x.enumerate(expression)
}

func applySubscript(found []string, single, first, last, piece string) ([]string, error) {
	number := func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, undecided("the subscript of %s is too large", piece)
		}
		return n, nil
	}
	at := single
	if single == "" {
		at = first
	}
	i, err := number(at)
	if err != nil {
		return nil, err
	}
	end := len(found) - 1
	if single == "" && last != "" {
		if end, err = number(last); err != nil {
			return nil, err
		}
	}
	if single != "" || last != "" && end == 0 { // a range that ends at 0 counts as one index
		if i < 0 {
			i += len(found)
		}
		if i < 0 || i >= len(found) {
			return nil, fmt.Errorf("the subscript of %s is out of range", piece)
		}
		return found[i : i+1], nil
	}
	i, end = min(i, len(found)), min(end+1, len(found))
	if i >= end {
		return nil, nil
	}
	return found[i:end], nil
}

// enumerate lists the hosts of all groups that match, and of all hosts that do where no group did or the expression
// is no plain word.
func (x *index) enumerate(expression string) ([]string, error) {
	match, err := matcher(expression)
	if err != nil {
		return nil, err
	}
	var found []string
	groupMatched := false
	for _, group := range x.groups {
		if match(group.Name) {
			groupMatched = true
			found = append(found, group.Hosts...)
		}
	}
	if !groupMatched || expression[0] == '~' || strings.ContainsAny(expression, ".?*[") {
		for _, host := range x.hosts {
			if match(host) {
				found = append(found, host)
			}
		}
	}
	localhosts := []string{"localhost", "127.0.0.1", "::1"}
	if len(found) == 0 && slices.Contains(localhosts, expression) {
		for _, name := range localhosts {
			if x.isHost[name] {
				return []string{name}, nil
			}
		}
		return []string{"localhost"}, nil // one that Ansible makes up, in no group
	}
	return found, nil
}

// matcher compiles a regular expression, a glob or a plain word.
func matcher(expression string) (func(string) bool, error) {
	if expression[0] == '~' {
		return regexMatcher(expression[1:])
	}
	if !strings.ContainsAny(expression, "?*[") {
		return func(name string) bool { return name == expression }, nil
	}
	return compileGlob(expression).match, nil
}
