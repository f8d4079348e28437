package trackmap

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxDigits is how long a number in a name may be to be counted with.
	maxDigits = 18
	// maxNames bounds what one folded text may unfold to.
	maxNames = 1 << 17
)

// Fold writes a set of names as one line, sorted and separated by commas. Names that differ in one number are folded
// into ranges: "compute-[0-7,9].example.com,rack1-[08-12]". A number keeps its width, so leading zeros survive. A name
// with characters other than letters, digits, dots, dashes and underscores stands alone as a quoted Go string.
// Equal sets give equal texts; the empty set gives "".
func Fold(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	crowd := map[pattern]int{}
	for _, name := range names {
		for p := range patterns(name) {
			crowd[p]++
		}
	}
	var items []string
	numbers := map[pattern][]string{}
	for _, name := range names {
		most, best, number := 1, pattern{}, ""
		for p, digits := range patterns(name) {
			if crowd[p] > most {
				most, best, number = crowd[p], p, digits
			}
		}
		if most == 1 {
			items = append(items, literal(name))
			continue
		}
		numbers[best] = append(numbers[best], number)
	}
	for p, members := range numbers {
		if len(members) == 1 { // the others found more company elsewhere
			items = append(items, p.before+members[0]+p.after)
			continue
		}
		items = append(items, p.before+"["+strings.Join(ranges(members), ",")+"]"+p.after)
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

var errTooMany = fmt.Errorf("more than %d names", maxNames)

// pattern is a name with one of its numbers left out.
type pattern struct{ before, after string }

// patterns gives every pattern of a name with the number that was left out, none for a name that needs quotes.
func patterns(name string) iter.Seq2[pattern, string] {
	return func(yield func(pattern, string) bool) {
		if !isPlain(name) {
			return
		}
		for start := 0; start < len(name); start++ {
			end := start
			for end < len(name) && isDigit(name[end]) {
				end++
			}
			if end == start {
				continue
			}
			if end-start <= maxDigits && !yield(pattern{name[:start], name[end:]}, name[start:end]) {
				return
			}
			start = end
		}
	}
}

// ranges folds different numbers. In a range whose ends are equally long every number has that length; in one whose
// ends are not, no number has leading zeros.
func ranges(numbers []string) []string {
	slices.SortFunc(numbers, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	var folded []string
	for first := 0; first < len(numbers); {
		last := first
		for last+1 < len(numbers) && isNext(numbers[first], numbers[last], numbers[last+1]) {
			last++
		}
		if last == first {
			folded = append(folded, numbers[first])
		} else {
			folded = append(folded, numbers[first]+"-"+numbers[last])
		}
		first = last + 1
	}
	return folded
}

// isNext tells whether the number b may follow a in a range that begins with first.
func isNext(first, a, b string) bool {
	x, y := value(a), value(b)
	return y == x+1 && (len(a) == len(b) || !isPadded(first) && !isPadded(b))
}

// Unfold gives the sorted names that Fold wrote. It refuses what Fold would not write in that spelling, a name that
// occurs twice, and more than 131072 names.
func Unfold(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var names []string
	for more := true; more; {
		var item string
		var err error
		if item, text, more, err = cutItem(text); err != nil {
			return nil, err
		}
		if names, err = expand(names, item); err != nil {
			return nil, err
		}
		if len(names) > maxNames {
			return nil, errTooMany
		}
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return nil, fmt.Errorf("name %q occurs twice", names[i])
		}
	}
	return names, nil
}

// cutItem cuts the text after its first item; more tells that a comma followed.
func cutItem(text string) (item, rest string, more bool, err error) {
	end := 0
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return "", "", false, errors.New("a quoted name does not end")
		}
		end = len(quoted)
	} else if open := strings.IndexAny(text, "[,"); open >= 0 && text[open] == '[' {
		end = open + max(0, strings.IndexByte(text[open:], ']'))
	}
	comma := strings.IndexByte(text[end:], ',')
	if comma < 0 {
		return text, "", false, nil
	}
	return text[:end+comma], text[end+comma+1:], true, nil
}

// expand appends the names that one item stands for.
func expand(names []string, item string) ([]string, error) {
	if strings.HasPrefix(item, `"`) {
		name, err := strconv.Unquote(item)
		if err != nil || literal(name) != item {
			return nil, fmt.Errorf("%s is not a name in quotes", item)
		}
		return append(names, name), nil
	}
	before, rest, folded := strings.Cut(item, "[")
	list, after, closed := strings.Cut(rest, "]")
	if folded != closed || before+after != "" && !isPlain(before+after) || before+rest == "" {
		return nil, fmt.Errorf("%q is neither a name nor a range of names", item)
	}
	if !folded {
		return append(names, before), nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		if !isRangeOf(first, last) || isRange && first == last {
			return nil, fmt.Errorf("%q in %q is not a range of numbers", part, item)
		}
		if value(last)-value(first) >= uint64(maxNames-len(names)) {
			return nil, errTooMany
		}
		width := 0
		if len(first) == len(last) {
			width = len(first)
		}
		for n := value(first); n <= value(last); n++ {
			names = append(names, fmt.Sprintf("%s%0*d%s", before, width, n, after))
		}
	}
	return names, nil
}

func isRangeOf(first, last string) bool {
	for _, number := range []string{first, last} {
		if number == "" || len(number) > maxDigits || strings.ContainsFunc(number, func(r rune) bool { return r < '0' || r > '9' }) {
			return false
		}
	}
	return value(first) <= value(last) && (len(first) == len(last) || !isPadded(first) && !isPadded(last))
}

// literal is a name that stands for itself, in quotes where it needs them.
func literal(name string) string {
	if isPlain(name) {
		return name
	}
	return strconv.Quote(name)
}

func isPlain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !isDigit(c) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return name != ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isPadded(number string) bool { return len(number) > 1 && number[0] == '0' }

// value reads digits as a number; there are at most maxDigits.
func value(number string) uint64 {
	var n uint64
	for i := range len(number) {
		n = n*10 + uint64(number[i]-'0')
	}
	return n
}
