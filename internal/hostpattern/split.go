package hostpattern

import (
	"regexp"
	"strings"
)

// splitLimit cuts a limit into its pieces. No pieces means no limit.
func splitLimit(limit string) ([]string, error) {
	for _, r := range limit {
		if r > '~' || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return nil, undecided("the limit holds a character outside printable ASCII")
		}
	}
	var pieces []string
	switch {
	case strings.Contains(limit, ","):
		pieces = strings.Split(limit, ",")
	case isAddress(limit):
		pieces = []string{limit}
	default:
		pieces = word.FindAllString(limit, -1)
	}
	var kept []string
	for _, piece := range pieces {
		if piece = strings.TrimSpace(piece); piece == "" {
			continue
		}
		if piece[0] == '@' {
			return nil, undecided("%s is a file inside the pod", piece)
		}
		kept = append(kept, piece)
	}
	return kept, nil
}

// What Ansible calls an address, so that its colons separate nothing (parse_address in
// ansible/parsing/utils/addresses.py). All alternatives of its IPv6 expression but the last are open at the end.
var (
	word       = regexp.MustCompile(`(?:[^\s:\[\]]|\[[^\]]*\])+`)
	bracketed  = regexp.MustCompile(`^\[(.+)\]:[0-9]+$`)
	withPort   = regexp.MustCompile(`^((?:[^:\[\]]|\[[^\]]*\])*):[0-9]+$`)
	hexGroup   = `(?:[0-9a-f]{1,4}|\[[0-9a-f]{1,4}:[0-9a-f]{1,4}(?::[0-9]+)?\])`
	dotted     = hexGroup + `\.` + hexGroup + `\.` + hexGroup + `\.` + hexGroup
	ipv6       = regexp.MustCompile(`(?i)^(?:(?:` + hexGroup + `:){7}` + hexGroup + `|(?:` + hexGroup + `:){1,6}:|::|(?:0:){6}` + dotted + `|(?:0:){5}ffff:` + dotted + `$)`)
	span       = `\[(?:[a-z]:[a-z]|[0-9]+:[0-9]+)(?::[0-9]+)?\]`
	hostName   = regexp.MustCompile(`(?i)^` + label + `(?:\.` + label + `)*$`)
	label      = `(?:\w|` + span + `)(?:(?:[\w-]|` + span + `)*(?:[0-9a-z]|` + span + `))?`
	singleScar = regexp.MustCompile(`^_(?:\.|$)|\._(?:\.|$)`)
)

func isAddress(text string) bool {
	for _, shape := range []*regexp.Regexp{bracketed, withPort} {
		if m := shape.FindStringSubmatch(text); m != nil {
			text = m[1]
		}
	}
	if text == "" {
		return false
	}
	// A label may not end in an underscore, not even one of a single character.
	return ipv6.MatchString(text) || hostName.MatchString(text) && !singleScar.MatchString(text)
}
