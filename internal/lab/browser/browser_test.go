package browser_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rotation-operator/rotation-operator/internal/lab/browser"
)

// TestFaults: each kind of fault is found on a page that has it, and none on one that has none.
func TestFaults(t *testing.T) {
	if err := browser.Available(); err != nil && os.Getenv("ROTATION_REQUIRE_CHROMIUM") == "" {
		t.Skip(err)
	}
	tab, err := browser.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	for _, page := range []struct{ name, body, fault, problem string }{
		{"none", `<p>fine</p>`, "", ""},
		{"contrast", `<p style="color:#999">pale</p>`, "contrast 2.8", ""},
		{"overlap", `<p>one one</p><p style="margin-top:-2.2em">two two</p>`, "overlap: ", ""},
		{"overflow", `<div style="width:2000px">wide</div>`, "overflow: ", ""},
		{"exception", `<script>throw new Error("oh")</script>`, "", "oh"},
		{"console", `<script>console.error("oh")</script>`, "", "console.error"},
		{"policy", `<img alt="" src="https://example.invalid/x.png">`, "", "Content Security Policy"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:")
			_, _ = w.Write([]byte(`<!doctype html><title>x</title><link rel="icon" href="data:,">` + page.body))
		}))
		if err := tab.Show(server.URL, 1280, 800, false); err != nil {
			t.Fatal(err)
		}
		faults, err := tab.Faults()
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		for what, c := range map[string]struct {
			got  []string
			want string
		}{"faults": {faults, page.fault}, "problems": {tab.Problems(), page.problem}} {
			if c.want == "" && len(c.got) > 0 || c.want != "" && !slices.ContainsFunc(c.got, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("%s: %s %q, want %q", page.name, what, c.got, c.want)
			}
		}
	}
}
