// Package browser looks at pages with a real headless Chromium, as a person would: whether text can be read.
package browser

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ErrMissing says that Chromium is not installed.
var ErrMissing = errors.New("Chromium is missing: run hack/install-chromium.sh")

// Available answers with ErrMissing where Chromium is not installed.
func Available() error {
	if _, err := exec.LookPath("chromium"); err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return nil
}

// patience is how long the browser may take for what it is asked, altogether.
const patience = 5 * time.Minute

//go:embed faults.js
var faults string

// Tab is one tab of a Chromium of its own.
type Tab struct {
	// Context is what chromedp's actions run in.
	Context context.Context
	close   func()

	mutex    sync.Mutex
	problems []string
}

// Open starts a browser. Whoever opens it has to Close it.
func Open(ctx context.Context) (*Tab, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root; the pages are our own
	}
	ctx, ended := context.WithTimeout(ctx, patience)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	ctx, leave := chromedp.NewContext(ctx)
	t := &Tab{Context: ctx, close: func() { leave(); stop(); ended() }}
	chromedp.ListenTarget(ctx, t.hear)
	if err := chromedp.Run(ctx, log.Enable(), runtime.Enable()); err != nil {
		t.close()
		return nil, fmt.Errorf("starting Chromium: %w", err)
	}
	return t, nil
}

// Close ends the browser.
func (t *Tab) Close() { t.close() }

func (t *Tab) hear(event any) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			t.problems = append(t.problems, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		t.problems = append(t.problems, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			t.problems = append(t.problems, fmt.Sprintf("console.%s", e.Type))
		}
	}
}

// Problems are what the console has shown since it was asked last: errors, warnings, what the page's policy refused.
func (t *Tab) Problems() []string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	problems := t.problems
	t.problems = nil
	return problems
}

// Show opens the address in a window of that size in CSS pixels.
func (t *Tab) Show(address string, width, height int64, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
	if err := chromedp.Run(t.Context, media, chromedp.EmulateViewport(width, height), chromedp.Navigate(address)); err != nil {
		return fmt.Errorf("opening %s: %w", address, err)
	}
	return nil
}

// Faults are what a person would stumble over on the page as it is shown, a sentence each: text with too little
// contrast (below 4.5, as WCAG 2.2 1.4.3 wants), text over other text, a page that is wider than its window.
func (t *Tab) Faults() ([]string, error) {
	var found []string
	if err := chromedp.Run(t.Context, chromedp.Evaluate(faults, &found)); err != nil {
		return nil, fmt.Errorf("looking for faults: %w", err)
	}
	return found, nil
}

// Picture writes what is shown into ROTATION_SCREENSHOTS, where that names a directory, as a PNG.
func (t *Tab) Picture(name string) error {
	dir := os.Getenv("ROTATION_SCREENSHOTS")
	if dir == "" {
		return nil
	}
	var png []byte
	if err := chromedp.Run(t.Context, chromedp.CaptureScreenshot(&png)); err != nil {
		return fmt.Errorf("picture of %s: %w", name, err)
	}
	const mode = 0o644
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".png"), png, mode); err != nil {
		return fmt.Errorf("picture of %s: %w", name, err)
	}
	return nil
}
