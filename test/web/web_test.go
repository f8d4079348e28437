// Package web looks at the dashboard's page with a real browser.
package web

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rotation-operator/rotation-operator/internal/lab/browser"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
	"github.com/rotation-operator/rotation-operator/internal/web"
)

// dashboard is a page whose report can be exchanged; without one the read fails.
type dashboard struct {
	*httptest.Server
	now atomic.Pointer[report.Report]
}

func serve(t *testing.T, story *reporttest.Story) *dashboard {
	t.Helper()
	d := &dashboard{}
	d.become(story)
	const every = 20 * time.Millisecond
	d.Server = httptest.NewServer(web.New(func(context.Context) (report.Report, error) {
		if r := d.now.Load(); r != nil {
			return *r, nil
		}
		return report.Report{}, errors.New("the API server does not answer")
	}, "TOKEN", every))
	t.Cleanup(func() {
		d.CloseClientConnections()
		d.Close()
	})
	return d
}

func (d *dashboard) become(story *reporttest.Story) {
	if story == nil {
		d.now.Store(nil)
		return
	}
	r := report.Build(story.Evidence())
	d.now.Store(&r)
}

func open(t *testing.T) *browser.Tab {
	t.Helper()
	if err := browser.Available(); err != nil && os.Getenv("ROTATION_REQUIRE_CHROMIUM") == "" {
		t.Skip(err)
	}
	tab, err := browser.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}

// TestReadable: on a wide window and a phone's, by day and by night, everything can be read and the console is silent.
func TestReadable(t *testing.T) {
	tab := open(t)
	for name, story := range map[string]*reporttest.Story{
		"partial": reporttest.Partial(), "unknown": reporttest.Unknown(), "departed": reporttest.Departed(), "done": reporttest.Done(),
		"empty": reporttest.New(), "failed": nil, "large": reporttest.Large(600, 12),
	} {
		d := serve(t, story)
		for _, path := range []string{"", "nodesets/" + reporttest.Namespace + "/edpm"} {
			for _, width := range []int64{360, 1280} {
				for _, dark := range []bool{false, true} {
					page := fmt.Sprintf("%s-%s-%d-dark-%t", name, path, width, dark)
					if err := tab.Show(d.URL+"/TOKEN/"+path, width, 900, dark); err != nil {
						t.Fatal(err)
					}
					faults, err := tab.Faults()
					if err != nil {
						t.Fatal(err)
					}
					problems := tab.Problems()
					if name == "failed" || name == "empty" && path != "" { // Chromium notes every status of an error
						problems = nil
					}
					if len(faults)+len(problems) > 0 {
						t.Errorf("%s:\n%s", page, strings.Join(append(faults, problems...), "\n"))
					}
					if err := tab.Picture(page); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}

// TestLive: what changes in the cluster appears without a reload; a read that fails takes every verdict off the page,
// and so does a dashboard that has ended.
func TestLive(t *testing.T) {
	tab := open(t)
	d := serve(t, reporttest.Drifted())
	if err := tab.Show(d.URL+"/TOKEN/", 1280, 900, false); err != nil {
		t.Fatal(err)
	}
	await := func(what, condition string) {
		t.Helper()
		if err := chromedp.Run(tab.Context, chromedp.Poll(condition, nil, chromedp.WithPollingTimeout(time.Minute))); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	await("at first nothing may go", `document.querySelectorAll("[data-verdict]").length > 0 && !document.querySelector("[data-verdict=Safe]")`)
	// Something that a reload would lose.
	await("a mark", `window.mark = true`)
	d.become(reporttest.Done())
	await("the change", `window.mark && document.querySelector("[data-verdict=Safe]") !== null`)
	d.become(nil)
	await("the failure", `window.mark && !document.querySelector("[data-verdict]") && document.querySelector("#content [role=alert]").checkVisibility()`)
	d.become(reporttest.Done())
	await("the recovery", `window.mark && document.querySelector("[data-verdict=Safe]")?.checkVisibility()`)
	d.CloseClientConnections()
	d.Close()
	await("the end", `window.mark && !document.querySelector("#content").checkVisibility() && document.querySelector("#lost").checkVisibility()`)
}

// TestKeyboard: with the tab key alone one gets to the content, to a NodeSet's page and back.
func TestKeyboard(t *testing.T) {
	tab := open(t)
	d := serve(t, reporttest.Partial())
	if err := tab.Show(d.URL+"/TOKEN/", 1280, 900, false); err != nil {
		t.Fatal(err)
	}
	focus := func() string {
		t.Helper()
		var id string
		if err := chromedp.Run(tab.Context, chromedp.KeyEvent(kb.Tab),
			chromedp.Evaluate(`document.activeElement.id || document.activeElement.className`, &id)); err != nil {
			t.Fatal(err)
		}
		return id
	}
	if id := focus(); id != "skip" {
		t.Errorf("the tab key comes first to %q", id)
	}
	reach := func(want string) {
		t.Helper()
		const most = 100
		for range most {
			if focus() == want {
				return
			}
		}
		t.Fatalf("the tab key does not come to %s", want)
	}
	press := func(wait string) {
		t.Helper()
		if err := chromedp.Run(tab.Context, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(wait, chromedp.ByQuery)); err != nil {
			t.Fatal(err)
		}
	}
	reach("nodeset-0")
	press("#show-behind")
	reach("show-behind")
	press("#show-behind[aria-current]")
	reach("back")
	press("#credentials")
}
