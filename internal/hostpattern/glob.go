package hostpattern

import (
	"slices"
	"strings"
)

// glob is a compiled pattern of Python's fnmatch: each element matches one character, or any number for a star.
type glob []element

type element struct {
	star    bool
	negated bool
	ranges  [][2]byte // inclusive; one character is a range of itself
	any     bool
}

func compileGlob(pattern string) glob {
	var g glob
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			if len(g) == 0 || !g[len(g)-1].star {
				g = append(g, element{star: true})
			}
		case '?':
			g = append(g, element{any: true})
		case '[':
			end := classEnd(pattern, i+1)
			if end < 0 {
				g = append(g, literal('['))
				continue
			}
			g = append(g, compileClass(pattern[i+1:end]))
			i = end
		default:
			g = append(g, literal(c))
		}
	}
	return g
}

func literal(c byte) element { return element{ranges: [][2]byte{{c, c}}} }

// classEnd finds the closing bracket: not the one right after the opening bracket or its "!".
func classEnd(pattern string, from int) int {
	if from < len(pattern) && pattern[from] == '!' {
		from++
	}
	if from < len(pattern) && pattern[from] == ']' {
		from++
	}
	if from > len(pattern) {
		return -1
	}
	end := strings.IndexByte(pattern[from:], ']')
	if end < 0 {
		return -1
	}
	return from + end
}

// compileClass follows fnmatch.translate of Python 3.10.5 and later: a hyphen is a range only between two members,
// and a range that goes backwards is dropped with its ends.
func compileClass(class string) element {
	e := element{negated: strings.HasPrefix(class, "!")}
	first := 1
	if e.negated {
		first = 2
	}
	var chunks []string
	rest, from := class, first
	for from <= len(rest) {
		at := strings.IndexByte(rest[from:], '-')
		if at < 0 {
			break
		}
		at += from
		chunks = append(chunks, rest[:at])
		rest, from = rest[at+1:], 2
	}
	switch {
	case rest != "":
		chunks = append(chunks, rest)
	case len(chunks) > 0:
		chunks[len(chunks)-1] += "-"
	}
	for k := len(chunks) - 1; k > 0; k-- {
		left, right := chunks[k-1], chunks[k]
		if left[len(left)-1] > right[0] {
			chunks[k-1] = left[:len(left)-1] + right[1:]
			chunks = slices.Delete(chunks, k, k+1)
		}
	}
	if e.negated {
		chunks[0] = chunks[0][1:]
	}
	for k, chunk := range chunks {
		for i := range len(chunk) {
			isEnd := k > 0 && i == 0                          // the end of a range
			isStart := k+1 < len(chunks) && i == len(chunk)-1 // the start of one
			if isStart {
				e.ranges = append(e.ranges, [2]byte{chunk[i], chunks[k+1][0]})
			}
			if !isStart && !isEnd {
				e.ranges = append(e.ranges, [2]byte{chunk[i], chunk[i]})
			}
		}
	}
	return e
}

func (e element) matches(c byte) bool {
	if e.any {
		return true
	}
	in := slices.ContainsFunc(e.ranges, func(r [2]byte) bool { return r[0] <= c && c <= r[1] })
	return in != e.negated
}

// match takes the whole name. It goes back to the last star only, so it never takes longer than the two lengths
// multiplied.
func (g glob) match(name string) bool {
	g2, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		switch {
		case g2 < len(g) && g[g2].star:
			star, mark = g2, n
			g2++
		case g2 < len(g) && g[g2].matches(name[n]):
			g2++
			n++
		case star >= 0:
			mark++
			g2, n = star+1, mark
		default:
			return false
		}
	}
	for g2 < len(g) && g[g2].star {
		g2++
	}
	return g2 == len(g)
}
