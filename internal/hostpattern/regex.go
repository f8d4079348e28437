package hostpattern

import (
	"regexp"
	"strconv"
	"strings"
)

// regexMatcher compiles what follows a "~". Only expressions on which Python's re and Go's regexp agree are decided.
func regexMatcher(pattern string) (func(string) bool, error) {
	p := &regexParser{rest: pattern}
	if strings.HasPrefix(p.rest, "(?i)") {
		p.take(len("(?i)"))
	}
	if !p.alternatives() || p.rest != "" {
		return nil, undecided("regular expression %q goes beyond what Go and Python surely read alike", pattern)
	}
	// Compiled bare first: the wrapping could make a wrong expression right.
	if _, err := regexp.Compile(p.out.String()); err != nil {
		return nil, undecided("regular expression %q is none for Go", pattern)
	}
	flags, body, _ := strings.Cut(p.out.String(), ")")
	if !strings.HasPrefix(p.out.String(), "(?i)") {
		flags, body = "", p.out.String()
	} else {
		flags += ")"
	}
	compiled, err := regexp.Compile(flags + `\A(?:` + body + `)`)
	if err != nil {
		return nil, undecided("regular expression %q is none for Go", pattern)
	}
	return compiled.MatchString, nil
}

// regexParser accepts the common part of both languages and writes it as Go reads it.
type regexParser struct {
	rest string
	out  strings.Builder
}

func (p *regexParser) take(n int) {
	p.out.WriteString(p.rest[:n])
	p.rest = p.rest[n:]
}

func (p *regexParser) alternatives() bool {
	for {
		for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
			if !p.factor() {
				return false
			}
		}
		if p.rest == "" || p.rest[0] == ')' {
			return true
		}
		p.take(1)
	}
}

// factor is one thing to match with its quantifier, or an anchor without one.
func (p *regexParser) factor() bool {
	quantifiable := true
	switch c := p.rest[0]; c {
	case '^', '$':
		p.take(1)
		quantifiable = false
	case '(':
		if strings.HasPrefix(p.rest, "(?") && !strings.HasPrefix(p.rest, "(?:") {
			return false
		}
		p.take(1)
		if strings.HasPrefix(p.rest, "?:") {
			p.take(len("?:"))
		}
		if !p.alternatives() || p.rest == "" {
			return false
		}
		p.take(1)
	case '[':
		if !p.class() {
			return false
		}
	case '\\':
		anchor, ok := p.escape()
		if !ok {
			return false
		}
		quantifiable = !anchor
	case '*', '+', '?', '{', '}', ']':
		return false
	default:
		p.take(1)
	}
	return p.quantifier(quantifiable)
}

// escape takes a backslash and what follows; anchor says that it matches a place and not a character.
func (p *regexParser) escape() (anchor, ok bool) {
	if len(p.rest) < len(`\x`) {
		return false, false
	}
	switch c := p.rest[1]; {
	case strings.IndexByte("dDwWsS", c) >= 0, isPunctuation(c):
		p.take(len(`\x`))
		return false, true
	case strings.IndexByte("bBA", c) >= 0:
		p.take(len(`\x`))
		return true, true
	case c == 'Z':
		p.out.WriteString(`\z`)
		p.rest = p.rest[len(`\Z`):]
		return true, true
	}
	return false, false
}

func isPunctuation(c byte) bool {
	return c > ' ' && c <= '~' && !isAlphanumeric(c)
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// class takes a bracket expression: plain characters, escapes that stand for themselves or a class, rising ranges of
// letters or digits, a hyphen first or last.
func (p *regexParser) class() bool {
	end := 1
	if strings.HasPrefix(p.rest, "[^") {
		end = 2
	}
	for first := true; ; first = false {
		if end >= len(p.rest) {
			return false
		}
		c := p.rest[end]
		switch {
		case c == ']' && !first:
			p.take(end + 1)
			return true
		case c == '\\':
			if end+1 >= len(p.rest) || strings.IndexByte("dDwWsS", p.rest[end+1]) < 0 && !isPunctuation(p.rest[end+1]) {
				return false
			}
			end += 2
			if end < len(p.rest) && p.rest[end] == '-' && !strings.HasPrefix(p.rest[end:], "-]") {
				return false
			}
		case c == '-':
			if !first && !strings.HasPrefix(p.rest[end:], "-]") {
				return false
			}
			end++
			if first && end < len(p.rest) && p.rest[end] == '-' {
				return false
			}
		case strings.IndexByte("[]^&|~", c) >= 0:
			return false
		case end+2 < len(p.rest) && p.rest[end+1] == '-' && p.rest[end+2] != ']':
			last := p.rest[end+2]
			if !isAlphanumeric(c) || !isAlphanumeric(last) || c > last {
				return false
			}
			end += 3
			if end < len(p.rest) && p.rest[end] == '-' && !strings.HasPrefix(p.rest[end:], "-]") {
				return false
			}
		default:
			end++
		}
	}
}

// quantifier takes one quantifier, lazy or not, if there is one and it may stand here.
func (p *regexParser) quantifier(allowed bool) bool {
	if p.rest == "" || strings.IndexByte("*+?{", p.rest[0]) < 0 {
		return true
	}
	if !allowed {
		return false
	}
	length := 1
	if p.rest[0] == '{' {
		length = strings.IndexByte(p.rest, '}') + 1
		if length == 0 || !isCount(p.rest[1:length-1]) {
			return false
		}
	}
	p.take(length)
	if strings.HasPrefix(p.rest, "?") {
		p.take(1)
	}
	return p.rest == "" || strings.IndexByte("*+?{", p.rest[0]) < 0
}

// isCount accepts n, "n," and "n,m" with n <= m <= 1000.
func isCount(text string) bool {
	const most = 1000
	low, high, ranged := strings.Cut(text, ",")
	n, err := strconv.ParseUint(low, 10, 16)
	if err != nil || n > most {
		return false
	}
	if !ranged || high == "" {
		return true
	}
	m, err := strconv.ParseUint(high, 10, 16)
	return err == nil && n <= m && m <= most
}
