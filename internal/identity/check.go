package identity

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// groupName is the group that captures the identity.
const groupName = "identity"

var (
	// confidential are words by which people call what must not be shown.
	confidential = regexp.MustCompile(`(?i)passw|passphrase|secret|token|private|credential_key`)
	// inURL is a pattern up to a group that follows the colon after a URL's user.
	inURL = regexp.MustCompile(`://[^@]*:$`)
)

// probes are values as they stand in Secrets. No capture may have any of the word that stands for a password in them.
var probes = []string{
	"transport_url=rabbit://user:" + probed + "@host:5671/vhost?ssl=1",
	"[DEFAULT]\ntransport_url = rabbit://user:" + probed + "@a:5671,user:" + probed + "@b:5671/\n",
	"username = user\npassword = " + probed + "\n",
	"username=user\npassword=" + probed + "\n",
	"application_credential_id = 0123abcd\napplication_credential_secret = " + probed + "\n",
	`{"username": "user", "password": "` + probed + `"}`,
	`{"user":"user","secret":"` + probed + `"}`,
}

const probed = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"

// checked compiles a pattern and refuses what would take too much or what is secret, as far as that can be told.
func checked(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > 1024 {
		return nil, fmt.Errorf("regexp: it is longer than 1024 bytes")
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("regexp: %w", err)
	}
	names := slices.DeleteFunc(slices.Clone(expression.SubexpNames()), func(name string) bool { return name == "" })
	if !slices.Equal(names, []string{groupName}) {
		return nil, fmt.Errorf("regexp: one named group is needed, (?P<identity>…), and no other; it has %d: %s", len(names), strings.Join(names, ", "))
	}
	before, _, _ := strings.Cut(pattern, "(?P<"+groupName+">")
	if inURL.MatchString(strings.NewReplacer(`\`, "", "(?:", "", "(", "", ")", "").Replace(before)) || saysConfidential(before) {
		return nil, fmt.Errorf("regexp: the group identity stands where a password stands")
	}
	for _, probe := range probes {
		for _, match := range expression.FindAllStringSubmatch(probe, -1) {
			identity := match[expression.SubexpIndex(groupName)]
			if len(identity) > 4 && (strings.Contains(probed, identity) || strings.Contains(identity, probed[:4])) {
				return nil, fmt.Errorf("regexp: the group identity would capture a password")
			}
		}
	}
	if expression.MatchString("") {
		return nil, fmt.Errorf("regexp: it matches the empty string")
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("regexp: %w", err)
	}
	group := find(parsed)
	switch least := leastRunes(group); {
	case least == 0:
		return nil, fmt.Errorf("regexp: the group identity matches the empty string")
	case least > maxIdentity:
		return nil, fmt.Errorf("regexp: the group identity captures more than %d characters", maxIdentity)
	case runsOn(group, false):
		return nil, fmt.Errorf("regexp: the group identity matches too much: what it repeats must not match both ':' and '@'")
	}
	return expression, nil
}

// saysConfidential tells whether the last line of the pattern before the group names something secret.
func saysConfidential(before string) bool {
	last := max(strings.LastIndex(before, "\n"), strings.LastIndex(before, `\n`), strings.LastIndex(before, "|"))
	return confidential.MatchString(before[last+1:])
}

func find(node *syntax.Regexp) *syntax.Regexp {
	if node.Op == syntax.OpCapture && node.Name == groupName {
		return node
	}
	for _, sub := range node.Sub {
		if found := find(sub); found != nil {
			return found
		}
	}
	return nil
}

// leastRunes is the length of the shortest text that the expression matches.
func leastRunes(node *syntax.Regexp) int {
	sum := 0
	switch node.Op {
	case syntax.OpLiteral:
		return len(node.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpStar, syntax.OpQuest:
		return 0
	case syntax.OpRepeat:
		return node.Min * leastRunes(node.Sub[0])
	case syntax.OpAlternate:
		least := leastRunes(node.Sub[0])
		for _, sub := range node.Sub[1:] {
			least = min(least, leastRunes(sub))
		}
		return least
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, sub := range node.Sub {
			sum += leastRunes(sub)
		}
	}
	return sum
}

// runsOn tells whether the expression repeats something that matches both ':' and '@': it could run over
// the end of a user into the password.
func runsOn(node *syntax.Regexp, repeated bool) bool {
	repeated = repeated || node.Op == syntax.OpStar || node.Op == syntax.OpPlus || node.Op == syntax.OpRepeat
	switch node.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return repeated
	case syntax.OpCharClass:
		return repeated && hasRune(node.Rune, ':') && hasRune(node.Rune, '@')
	}
	return slices.ContainsFunc(node.Sub, func(sub *syntax.Regexp) bool { return runsOn(sub, repeated) })
}

func hasRune(ranges []rune, r rune) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}
