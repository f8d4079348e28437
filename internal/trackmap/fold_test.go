package trackmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/trackmap"
)

func ExampleFold() {
	fmt.Println(trackmap.Fold([]string{"compute-0", "compute-1", "compute-3", "compute-10", "storage"}))
	fmt.Println(trackmap.Fold([]string{"edpm-08.example.com", "edpm-09.example.com", "edpm-10.example.com"}))
	fmt.Println(trackmap.Fold([]string{"a[1]", "b,c"}))
	// Output:
	// compute-[0-1,3,10],storage
	// edpm-[08-10].example.com
	// "a[1]","b,c"
}

func TestFold(t *testing.T) {
	for want, names := range map[string][]string{
		``:                     nil,
		`""`:                   {""},
		`a`:                    {"a", "a"},
		`a1`:                   {"a1"},
		`[0-2]`:                {"0", "1", "2"},
		`[8-11]`:               {"8", "9", "10", "11"},
		`[8-9,08-11]`:          {"8", "9", "08", "09", "10", "11"},
		`[98-99,099-100]`:      {"98", "99", "099", "100"},
		`n[1,01,001]`:          {"n1", "n01", "n001"},
		`r1n[1-3],r2n1`:        {"r1n1", "r1n2", "r1n3", "r2n1"},
		`r1n1,r[1-3]n2`:        {"r1n1", "r1n2", "r2n2", "r3n2"},
		`a[1-2]-x,b`:           {"a1-x", "a2-x", "b"},
		`n1234567890123456789`: {"n1234567890123456789"},
		`n[999999999999999998-999999999999999999]`: {"n999999999999999999", "n999999999999999998"},
		`"a b","a\"","a\xff","é[0-1]"`:             {"é[0-1]", "a b", "a\xff", `a"`},
	} {
		if got := trackmap.Fold(names); got != want {
			t.Errorf("%q folds to %s, want %s", names, got, want)
		}
	}
}

func TestUnfoldRefuses(t *testing.T) {
	for _, text := range []string{
		",", "a,", ",a", "a,,b", "a,a", "a[0-1],a1", "a[", "a]", "a[]", "[]", "a[0-1", "a0-1]", "a[0-1][2-3]", "a[[0-1]]",
		"a[1-0]", "a[1-1]", "a[0-01]", "a[01-100]", "a[1-010]", "a[0,0]", "a[-1]", "a[1-]", "a[1-2-3]", "a[x]", "a[ 1]", "a[+1-2]",
		"a b", "é", `"a`, `"a"`, `"a b"c`, `"a b""c d"`, "`a b`", `'a'`, `"\u0020"`, `"`, "a\n", "a[0-1]é",
		"a[0-99999999]", "a[0-131071],b", "a[1-9999999999999999999]", "a[12345678901234567890]",
	} {
		if names, err := trackmap.Unfold(text); err == nil {
			t.Errorf("%s unfolds to %d names", text, len(names))
		}
	}
	if _, err := trackmap.Unfold("a[2-1]"); err == nil || !strings.Contains(err.Error(), "is not a range") {
		t.Errorf("a range that goes back is called %v", err)
	}
}

// drawNames draws names as fleets have them, and names that nobody should give to a host.
func drawNames(t *rapid.T) []string {
	number := rapid.OneOf(rapid.IntRange(0, 12), rapid.IntRange(95, 105), rapid.IntRange(0, 1<<40))
	name := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			before := rapid.SampledFrom([]string{"", "compute-", "rack1-node", "10.0.0.", "r"}).Draw(t, "before")
			after := rapid.SampledFrom([]string{"", ".example.com", "-2", "b7", "_"}).Draw(t, "after")
			width := rapid.IntRange(0, 4).Draw(t, "width")
			return fmt.Sprintf("%s%0*d%s", before, width, number.Draw(t, "number"), after)
		}),
		rapid.StringMatching(`[0-9]{1,20}`),
		rapid.StringMatching(`[a0-9,\[\]" \\.-]{0,6}`),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 5), func(b []byte) string { return string(b) }),
	)
	return rapid.SliceOfN(name, 0, 40).Draw(t, "names")
}

func set(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

func TestFoldUnfolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := drawNames(t)
		text := trackmap.Fold(names)
		got, err := trackmap.Unfold(text)
		if err != nil || !slices.Equal(got, set(names)) {
			t.Fatalf("%q folds to %s, that unfolds to %q (%v)", names, text, got, err)
		}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if again := trackmap.Fold(names); again != text {
			t.Fatalf("the same set folds to %s and to %s", text, again)
		}
	})
}

// TestFoldIsSmall: blocks of numbered hosts take a few characters, whatever stands around the number.
func TestFoldIsSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 400).Draw(t, "size")
		width := rapid.IntRange(0, 5).Draw(t, "width")
		format := rapid.SampledFrom([]string{"%0*d", "dc2-compute-%0*d.edpm.example.com", "%0*d.rack7", "10.0.3.%0*d"}).Draw(t, "format")
		names := make([]string, size)
		for i := range names {
			names[i] = fmt.Sprintf(format, width, i)
		}
		if text := trackmap.Fold(names); len(text) > len(format)+24 {
			t.Fatalf("%d names take %d bytes: %s", size, len(text), text)
		}
		if got, err := trackmap.Unfold(trackmap.Fold(names)); err != nil || !slices.Equal(got, set(names)) {
			t.Fatalf("%d names like %s come back as %d (%v)", size, names[0], len(got), err)
		}
	})
}

// FuzzUnfold: whatever unfolds, folds and unfolds to the same; nothing makes it panic or run out of memory.
func FuzzUnfold(f *testing.F) {
	for _, seed := range []string{"", `""`, "a,b[0-3,08-11].c", `"a,[",b[1-2]`, "a[98-101]", "[0-131071]", "a[1-", `"\xff"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := trackmap.Unfold(text)
		if err != nil {
			return
		}
		again, err := trackmap.Unfold(trackmap.Fold(names))
		if err != nil || !slices.Equal(names, again) {
			t.Errorf("%q unfolds to %d names, but not again (%v)", text, len(names), err)
		}
	})
}

// FuzzFold: any lines at all are names.
func FuzzFold(f *testing.F) {
	for _, seed := range []string{"compute-0\ncompute-1", "08\n9\n10", "a[0]\na,b\n\"c\"", "\n", "\xff\né"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		names := set(strings.Split(lines, "\n"))
		if got, err := trackmap.Unfold(trackmap.Fold(names)); err != nil || !slices.Equal(got, names) {
			t.Errorf("%q comes back as %q (%v)", names, got, err)
		}
	})
}
