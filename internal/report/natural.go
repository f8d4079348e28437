package report

import (
	"cmp"
	"slices"
	"strings"
)

// SortNatural sorts names as people do, compute-2 before compute-10, in place, and gives them back.
func SortNatural(names []string) []string {
	slices.SortFunc(names, compareNatural)
	return names
}

// compareNatural compares runs of digits by their value and everything else by its bytes.
func compareNatural(a, b string) int {
	whole := cmp.Compare(a, b)
	for a != "" && b != "" {
		headA, restA := chunk(a)
		headB, restB := chunk(b)
		if order := compareChunks(headA, headB); order != 0 {
			return order
		}
		a, b = restA, restB
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// chunk cuts the leading run of digits off, or of anything else.
func chunk(s string) (head, rest string) {
	end := 1
	for end < len(s) && isDigit(s[end]) == isDigit(s[0]) {
		end++
	}
	return s[:end], s[end:]
}

func compareChunks(a, b string) int {
	if !isDigit(a[0]) || !isDigit(b[0]) {
		return cmp.Compare(a, b)
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
