package hostpattern

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// vector is one answer of real Ansible.
type vector struct {
	ID        int              `json:"id"`
	Inventory orderedInventory `json:"inventory"`
	Limit     *string          `json:"limit"`
	Spec      *struct {
		Tags     string `json:"ansibleTags"`
		Limit    string `json:"ansibleLimit"`
		SkipTags string `json:"ansibleSkipTags"`
	} `json:"spec"`
	Expected  hosts             `json:"expected"`
	ErrorKind *string           `json:"error_kind"`
	Decidable *bool             `json:"decidable"`
	Note      string            `json:"note"`
	PlayHosts oneOrMore         `json:"play_hosts"`
	Env       map[string]string `json:"env"`
}

// hosts are the expected ones, or none where the recording only says "error".
type hosts []string

func (h *hosts) UnmarshalJSON(raw []byte) error {
	if string(raw) == `"error"` {
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(h))
}

// oneOrMore is a play's hosts: a pattern or a list of them.
type oneOrMore string

func (o *oneOrMore) UnmarshalJSON(raw []byte) error {
	var list []string
	if err := json.Unmarshal(raw, &list); err == nil {
		*o = oneOrMore(strings.Join(list, ","))
		return nil
	}
	return json.Unmarshal(raw, (*string)(o))
}

// orderedInventory keeps the order of groups, which JSON objects in Go lose.
type orderedInventory struct{ Inventory }

func (o *orderedInventory) UnmarshalJSON(raw []byte) error {
	inventory, err := ParseInventory(raw)
	o.Inventory = inventory
	return err
}

func readVectors(t *testing.T, file string) []vector {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

func (v vector) check(t *testing.T, got Selection) {
	t.Helper()
	switch {
	case !got.Decided:
		for _, host := range v.Expected {
			if !slices.Contains(got.Perhaps, host) && v.Inventory.has(host) {
				t.Errorf("vector %d: %s is not even possible", v.ID, host)
			}
		}
	case v.ErrorKind != nil:
		if got.Err == "" {
			t.Errorf("vector %d (%s): Ansible stops (%s), we say %v", v.ID, v.Note, *v.ErrorKind, got.Surely)
		}
	case got.Err != "":
		t.Errorf("vector %d (%s): Ansible chooses %v, we say that it stops: %s", v.ID, v.Note, v.Expected, got.Err)
	case !slices.Equal(got.Surely, v.Expected) && len(got.Surely)+len(v.Expected) > 0:
		t.Errorf("vector %d (%s): Ansible chooses %v, we say %v", v.ID, v.Note, v.Expected, got.Surely)
	}
}

func (o orderedInventory) has(host string) bool {
	return slices.ContainsFunc(o.Groups, func(g Group) bool { return slices.Contains(g.Hosts, host) }) || slices.Contains(o.Hosts, host)
}

func TestLimitVectors(t *testing.T) {
	refused := 0
	for _, v := range readVectors(t, "testdata/limit-vectors.json") {
		if v.Env != nil {
			continue // settings are refused before a limit is looked at
		}
		if v.PlayHosts == "" {
			v.PlayHosts = "all"
		}
		got := ResolvePlay(v.Inventory.Inventory, string(v.PlayHosts), v.Limit)
		v.check(t, got)
		if !got.Decided {
			refused++
			t.Logf("refused %d %q: %s", v.ID, *v.Limit, got.Why)
		}
	}
	if refused != refusedLimits {
		t.Errorf("%d limits are refused, used to be %d", refused, refusedLimits)
	}
}

// refusedLimits is how many of the recorded limits go beyond what the rules call decidable.
const refusedLimits = 60

func TestSpecVectors(t *testing.T) {
	for _, v := range readVectors(t, "testdata/spec-vectors.json") {
		line := Compose(v.Spec.Tags, v.Spec.Limit, v.Spec.SkipTags)
		got := ResolveRun(v.Inventory.Inventory, "all", line)
		v.check(t, got)
		if *v.Decidable && !got.Decided {
			t.Errorf("vector %d %q: decidable %t, decided %t (%s)", v.ID, line, *v.Decidable, got.Decided, got.Why)
		}
	}
}
