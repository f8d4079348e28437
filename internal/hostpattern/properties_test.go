package hostpattern

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveGlob tries every possibility, which is obviously right and takes for ever on many stars.
func naiveGlob(g glob, name string) bool {
	if len(g) == 0 {
		return name == ""
	}
	if g[0].star {
		return naiveGlob(g[1:], name) || name != "" && naiveGlob(g, name[1:])
	}
	return name != "" && g[0].matches(name[0]) && naiveGlob(g[1:], name[1:])
}

func TestGlobAgainstNaive(t *testing.T) {
	pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab0-*?[!]")), 0, 8, -1)
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab0-")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		p, n := pattern.Draw(t, "pattern"), name.Draw(t, "name")
		if got, want := compileGlob(p).match(n), naiveGlob(compileGlob(p), n); got != want {
			t.Fatalf("%q matches %q: %t, trying everything says %t", p, n, got, want)
		}
	})
}

func TestFoldChoosesExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inventory Inventory
		for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
			hosts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"c-0", "c-1", "c-2", "all", "g1", "x[0]", "a:b", "!n"}), 0, 6, rapid.ID).Draw(t, "hosts")
			inventory.Groups = append(inventory.Groups, Group{Name: fmt.Sprint("g", i), Hosts: hosts})
		}
		want := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"c-0", "c-1", "c-2", "all", "g1", "x[0]", "a:b", "!n"}), 0, 4, rapid.ID).Draw(t, "want")
		limit, err := Fold(inventory, want)
		if err != nil {
			return
		}
		if got := ResolveRun(inventory, "all", Compose("", limit, "")); !got.Decided || !slices.Equal(got.Surely, slices.Sorted(slices.Values(want))) {
			t.Fatalf("%q chooses %v, want %v", limit, got.Surely, want)
		}
	})
}

// FuzzResolve: whatever is asked, what is sure is possible, and what is possible is in the inventory.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"", "compute-0", "all:!compute-[0:1]", "~c.*,&edpm", "--limit 'a b' --skip-tags x", "[!", "***********0"} {
		f.Add(seed)
	}
	inventory := Inventory{Groups: []Group{{Name: "edpm", Hosts: []string{"compute-0", "compute-1", "edpm"}}}}
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []Selection{Resolve(inventory, text), ResolveRun(inventory, "edpm", text)} {
			if !isSubset(got.Surely, got.Perhaps) || !isSubset(got.Perhaps, inventory.Groups[0].Hosts) {
				t.Errorf("%q: surely %v, perhaps %v", text, got.Surely, got.Perhaps)
			}
			if got.Err != "" && len(got.Perhaps) > 0 {
				t.Errorf("%q stops Ansible and reaches %v", text, got.Perhaps)
			}
		}
	})
}
