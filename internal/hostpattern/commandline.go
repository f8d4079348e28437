package hostpattern

import (
	"slices"
	"strings"
)

// CommandLine is what openstack-operator adds to ansible-playbook's command line for a Deployment.
type CommandLine struct {
	Tags, Limit, SkipTags string
	// HasLimit tells a limit that is empty from none. Both mean every host.
	HasLimit bool
}

// Narrowed tells whether tags may have left tasks out.
func (c CommandLine) Narrowed() bool {
	return c.Tags != "" && c.Tags != "all" || c.SkipTags != ""
}

// Compose writes the three fields of a Deployment's spec as openstack-operator does: unquoted, in this order, those
// that are not empty.
func Compose(tags, limit, skipTags string) string {
	var line strings.Builder
	for _, option := range [][2]string{{"--tags", tags}, {"--limit", limit}, {"--skip-tags", skipTags}} {
		if option[1] != "" {
			line.WriteString(option[0] + " " + option[1] + " ")
		}
	}
	return strings.TrimSpace(line.String())
}

// ParseCommandLine takes a composed command line apart, as ansible-runner and ansible-playbook would. Only the shape
// that openstack-operator writes for plain fields is decided: whatever else slips in through a field is an error.
func ParseCommandLine(line string) (CommandLine, error) {
	var c CommandLine
	if strings.Contains(line, "$(") {
		return c, undecided("Kubernetes expands $(NAME) in the command line")
	}
	words, err := shellWords(strings.ReplaceAll(line, "$$", "$")) // as Kubernetes unescapes it
	if err != nil {
		return c, err
	}
	for _, option := range []struct {
		name string
		into *string
	}{{"--tags", &c.Tags}, {"--limit", &c.Limit}, {"--skip-tags", &c.SkipTags}} {
		if len(words) == 0 || words[0] != option.name {
			continue
		}
		if len(words) == 1 || strings.HasPrefix(words[1], "-") {
			return c, undecided("%s has no plain value", option.name)
		}
		*option.into, words = words[1], words[2:]
		c.HasLimit = c.HasLimit || option.name == "--limit"
	}
	if len(words) > 0 {
		return c, undecided("the command line holds %q, which openstack-operator did not put there", words[0])
	}
	return c, nil
}

// shellWords splits as Python's shlex.split does (POSIX rules, no comments).
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case slices.Contains([]byte(" \t\r\n"), c):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		case c == '\\':
			inWord = true
			if i++; i == len(line) {
				word.WriteByte('\n') // openstack-operator puts line ends behind
				break
			}
			word.WriteByte(line[i])
		case c == '\'' || c == '"':
			end, text := quoted(line[i+1:], c)
			if end < 0 {
				return nil, undecided("a quote is not closed")
			}
			word.WriteString(text)
			i += end + 1
			inWord = true
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted reads up to the closing quote and gives its position, -1 where there is none. Within double quotes a
// backslash takes the meaning from a double quote and a backslash, and stays before anything else.
func quoted(text string, quote byte) (end int, unquoted string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i, b.String()
		case quote == '"' && text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(text[i])
		}
	}
	return -1, ""
}
