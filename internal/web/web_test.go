package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
	"github.com/rotation-operator/rotation-operator/internal/web"
)

const token = "TOKEN"

var states = map[string]func() *reporttest.Story{
	"healthy": reporttest.Healthy, "drifted": reporttest.Drifted, "partial": reporttest.Partial, "unknown": reporttest.Unknown,
	"retried": reporttest.Retried, "departed": reporttest.Departed, "unsettled": reporttest.Unsettled, "done": reporttest.Done,
	"unseen": reporttest.Unseen, "unjudged": reporttest.Unjudged, "overridden": reporttest.Overridden, "empty": reporttest.New,
	"large": func() *reporttest.Story { return reporttest.Large(1200, 6) },
}

func fixed(r report.Report) web.Source {
	return func(context.Context) (report.Report, error) { return r, nil }
}

// ask gives status and body.
func ask(t *testing.T, source web.Source, method, path, host string) (int, http.Header, string) {
	t.Helper()
	request := httptest.NewRequest(method, path, nil)
	request.Host = host
	recorder := httptest.NewRecorder()
	web.New(source, token, time.Hour).ServeHTTP(recorder, request)
	return recorder.Code, recorder.Header(), recorder.Body.String()
}

var verdicts = regexp.MustCompile(`data-verdict="(\w+)"><b>(\w+)</b>`)

// TestOverview: the page gives each credential the answer that the report gives, and shows every NodeSet and note.
func TestOverview(t *testing.T) {
	for name, story := range states {
		r := report.Build(story().Evidence())
		status, _, body := ask(t, fixed(r), "GET", "/TOKEN/", "127.0.0.1:1")
		if status != http.StatusOK {
			t.Fatalf("%s: status %d", name, status)
		}
		want := map[string]int{}
		for _, c := range r.Credentials {
			want[string(r.Answer(c).Verdict)]++
		}
		got := map[string]int{}
		for _, match := range verdicts.FindAllStringSubmatch(body, -1) {
			got[match[1]]++
			if word := map[string]string{"Safe": "yes", "Held": "no", "Unknown": "unknown"}[match[1]]; word != match[2] {
				t.Errorf("%s: %s is called %s", name, match[1], match[2])
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the page has %v, the report %v", name, got, want)
		}
		for _, n := range r.NodeSets {
			if !strings.Contains(body, `href="/TOKEN/nodesets/`+n.Namespace+"/"+n.Name+`"`) {
				t.Errorf("%s: NodeSet %s has no link", name, n.Name)
			}
		}
		_, timeline, _ := strings.Cut(body, `id="timeline"`)
		ran := reached.FindAllString(timeline, -1)
		slices.Sort(ran)
		if want := reaches(r); len(want) <= 50 && fmt.Sprint(ran) != fmt.Sprint(want) {
			t.Errorf("%s: the timeline has %v, the runs reached %v", name, ran, want)
		}
		for _, note := range r.Notes {
			if !strings.Contains(html.UnescapeString(body), note.Text) {
				t.Errorf("%s: the page lacks the note %q", name, note.Text)
			}
		}
	}
}

var reached = regexp.MustCompile(`\d+ of \d+`)

// reaches are, for each run, the nodes on which it ended well out of all that it may have touched, sorted.
func reaches(r report.Report) []string {
	var all []string
	for _, n := range r.NodeSets {
		for _, run := range n.Runs {
			touched := map[string]bool{}
			for _, node := range append(slices.Clone(run.Attempted), run.Delivered...) {
				touched[node] = true
			}
			all = append(all, fmt.Sprintf("%d of %d", len(run.Delivered), len(touched)))
		}
	}
	slices.Sort(all)
	return all
}

var (
	rows  = regexp.MustCompile(`(?s)<tr><th scope="row">([\w.-]+)(?:<br><span class="dim">departed</span>)?</th>(.*?)</tr>`)
	cells = regexp.MustCompile(`class="cell" data-state="(\w+)"`)
)

// TestNodeSet: over all its pages every node is there once with the state of each of its Secrets, those behind first.
func TestNodeSet(t *testing.T) {
	for name, story := range states {
		r := report.Build(story().Evidence())
		for _, n := range r.NodeSets {
			want := map[string]string{}
			for _, node := range n.NodeList {
				shared := ""
				for _, s := range n.Secrets {
					for _, c := range node.Cells {
						if c.Secret == s.Name {
							shared += string(c.State) + " "
						}
					}
				}
				want[node.Name] = shared
			}
			got, rank := map[string]string{}, -1
			ranks := map[report.State]int{report.Behind: 0, report.Doubtful: 1, report.Updated: 2}
			states := map[string]report.State{}
			for _, node := range n.NodeList {
				states[node.Name] = node.State
			}
			for page := 1; len(got) < len(want) && page <= 5; page++ {
				_, _, body := ask(t, fixed(r), "GET", fmt.Sprintf("/TOKEN/nodesets/%s/%s?page=%d", n.Namespace, n.Name, page), "localhost")
				_, body, _ = strings.Cut(body, `id="nodes"`)
				for _, match := range rows.FindAllStringSubmatch(body, -1) {
					if _, twice := got[match[1]]; twice {
						t.Errorf("%s: %s is there twice", name, match[1])
					}
					shown := ""
					for _, one := range cells.FindAllStringSubmatch(match[2], len(n.Secrets)) {
						shown += one[1] + " "
					}
					got[match[1]] = shown
					if next := ranks[states[match[1]]]; next < rank {
						t.Errorf("%s: %s comes after one that matters less", name, match[1])
					} else {
						rank = next
					}
				}
			}
			if len(n.HostSecrets) == 0 && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: NodeSet %s shows\n%v\nwant\n%v", name, n.Name, got, want)
			}
		}
	}
}

// TestFilter: of the nodes only those in the state that was asked for.
func TestFilter(t *testing.T) {
	r := report.Build(reporttest.Partial().Evidence())
	n := r.NodeSets[0]
	for _, state := range []report.State{report.Behind, report.Updated, report.Doubtful} {
		_, _, body := ask(t, fixed(r), "GET", fmt.Sprintf("/TOKEN/nodesets/%s/%s?state=%s", n.Namespace, n.Name, state), "localhost")
		_, body, _ = strings.Cut(body, `id="nodes"`)
		want := 0
		for _, node := range n.NodeList {
			if node.State == state {
				want++
			}
		}
		if got := len(rows.FindAllString(body, -1)); got != want {
			t.Errorf("%s: %d rows, want %d", state, got, want)
		}
	}
	status, _, body := ask(t, fixed(r), "GET", "/TOKEN/nodesets/"+n.Namespace+"/nope?page=-3", "localhost")
	if status != http.StatusNotFound || !strings.Contains(body, "there is no NodeSet nope") {
		t.Errorf("an unknown NodeSet: %d %s", status, body)
	}
}

// TestFailedRead: what cannot be read gives no verdict at all.
func TestFailedRead(t *testing.T) {
	broken := func(context.Context) (report.Report, error) {
		return report.Build(reporttest.Done().Evidence()), errors.New("<b>forbidden</b>")
	}
	for _, path := range []string{"/TOKEN/", "/TOKEN/nodesets/openstack/edpm"} {
		status, _, body := ask(t, broken, "GET", path, "localhost")
		if status != http.StatusServiceUnavailable || strings.Contains(body, "data-verdict") || !strings.Contains(body, "&lt;b&gt;forbidden") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestHostile: what a name or message holds stays text.
func TestHostile(t *testing.T) {
	r := report.Build(reporttest.Drifted().Evidence())
	const evil = `"><script>alert(1)</script>`
	r.Notes = append(r.Notes, report.Note{Text: evil, Fix: evil})
	r.NodeSets[0].Name, r.NodeSets[0].NodeList[0].Name = evil, evil
	r.Credentials[0].Message, r.Credentials[0].Name = evil, evil
	for _, path := range []string{"/TOKEN/", "/TOKEN/nodesets/" + r.NodeSets[0].Namespace + "/%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E"} {
		status, _, body := ask(t, fixed(r), "GET", path, "localhost")
		if status != http.StatusOK || strings.Contains(body, "<script>alert") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestAccess: only GET and HEAD, only with the token, only on this machine; and nothing from elsewhere in the page.
func TestAccess(t *testing.T) {
	asked := false
	source := func(context.Context) (report.Report, error) {
		asked = true
		return report.Report{}, nil
	}
	for _, c := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/TOKEN/", "evil.example", http.StatusMisdirectedRequest},
		{"GET", "/TOKEN/", "127.0.0.1.evil.example:80", http.StatusMisdirectedRequest},
		{"GET", "/TOKEN/", "10.0.0.1:80", http.StatusMisdirectedRequest},
		{"GET", "/", "localhost", http.StatusNotFound},
		{"GET", "/token/", "localhost", http.StatusNotFound},
		{"GET", "/TOKENS/", "localhost", http.StatusNotFound},
		{"GET", "/x/../TOKEN/x", "localhost", http.StatusNotFound},
		{"GET", "/TOKEN/other", "localhost", http.StatusNotFound},
		{"POST", "/TOKEN/", "localhost", http.StatusMethodNotAllowed},
		{"DELETE", "/TOKEN/nodesets/a/b", "localhost", http.StatusMethodNotAllowed},
	} {
		status, header, _ := ask(t, source, c.method, c.path, c.host)
		if status != c.want || asked {
			t.Errorf("%s %s at %s: %d, want %d; something was read: %t", c.method, c.path, c.host, status, c.want, asked)
		}
		if !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'self'; script-src 'self';") {
			t.Errorf("%s: policy %q", c.path, header.Get("Content-Security-Policy"))
		}
	}
	for _, host := range []string{"localhost", "127.0.0.1:5", "[::1]:5"} {
		for _, path := range []string{"/TOKEN/", "/TOKEN/style.css", "/TOKEN/script.js"} {
			if status, _, _ := ask(t, source, "HEAD", path, host); status != http.StatusOK {
				t.Errorf("HEAD %s at %s: %d", path, host, status)
			}
		}
	}
	_, _, body := ask(t, fixed(report.Build(reporttest.Partial().Evidence())), "GET", "/TOKEN/", "localhost")
	for _, what := range []string{"http://", "https://", " style=", "onclick", "<style"} {
		if strings.Contains(body, what) {
			t.Errorf("the page holds %q", what)
		}
	}
}

// TestEvents: whoever listens hears of a change, and of a read that fails; nobody is asked while nobody listens.
func TestEvents(t *testing.T) {
	var now atomic.Pointer[report.Report]
	var reads atomic.Int64
	first := report.Build(reporttest.Drifted().Evidence())
	now.Store(&first)
	server := httptest.NewServer(web.New(func(context.Context) (report.Report, error) {
		reads.Add(1)
		if r := now.Load(); r != nil {
			return *r, nil
		}
		return report.Report{}, errors.New("gone")
	}, token, time.Millisecond))
	defer server.Close()
	if reads.Load() != 0 {
		t.Error("it reads before anybody asks")
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/TOKEN/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func() string {
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				return data
			}
		}
		t.Fatal(errors.Join(lines.Err(), io.ErrUnexpectedEOF))
		return ""
	}
	seen := map[string]bool{next(): true}
	second := report.Build(reporttest.Done().Evidence())
	for _, r := range []*report.Report{&second, nil} {
		now.Store(r)
		if revision := next(); seen[revision] {
			t.Errorf("revision %s came twice", revision)
		} else {
			seen[revision] = true
		}
	}
}
