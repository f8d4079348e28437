// Package web serves the report as a read-only page, for the person who has its address.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rotation-operator/rotation-operator/internal/report"
)

//go:embed assets
var assets embed.FS

var pages = template.Must(template.ParseFS(assets, "assets/page.html"))

// patience is how long a read may take.
const patience = 30 * time.Second

// Source reads the report anew.
type Source func(context.Context) (report.Report, error)

// Site is the page with everything that belongs to it. It is an http.Handler.
type Site struct {
	source Source
	token  string
	every  time.Duration
	mux    *http.ServeMux

	mutex sync.Mutex
	last  look
}

// look is what the source said, and when.
type look struct {
	at       time.Time
	report   report.Report
	err      error
	revision string
}

// New serves what the source says below the path /TOKEN/, and nothing elsewhere. The source is asked only while somebody
// looks, and at most once in every.
func New(source Source, token string, every time.Duration) *Site {
	s := &Site{source: source, token: token, every: every, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /{token}/{$}", func(w http.ResponseWriter, r *http.Request) {
		s.show(w, r, func(l look) (view, bool) { return overview(l.report), true })
	})
	s.mux.HandleFunc("GET /{token}/nodesets/{namespace}/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.show(w, r, func(l look) (view, bool) {
			return nodeSetView(l.report, r.PathValue("namespace"), r.PathValue("name"), r.URL.Query())
		})
	})
	s.mux.HandleFunc("GET /{token}/events", s.events)
	s.mux.HandleFunc("GET /{token}/style.css", asset("assets/style.css", "text/css; charset=utf-8"))
	s.mux.HandleFunc("GET /{token}/script.js", asset("assets/script.js", "text/javascript; charset=utf-8"))
	return s
}

// ServeHTTP refuses whoever does not have the address: another host name may be a web page elsewhere that had its name
// point here, and the token is what a page elsewhere cannot know.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Referrer-Policy":         "no-referrer", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	token, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !isLoopback(r.Host):
		http.Error(w, "this page is for this machine only", http.StatusMisdirectedRequest)
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.NotFound(w, r)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func asset(name, kind string) http.HandlerFunc {
	content, err := assets.ReadFile(name)
	if err != nil {
		panic(err) // it is compiled in
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(content) // whoever went away needs it no more
	}
}

// look asks the source, unless it was asked just now.
func (s *Site) look(ctx context.Context) look {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if now := time.Now(); s.last.at.IsZero() || now.Sub(s.last.at) >= s.every {
		// What does not answer is an error: a page that shows what was true once says nothing about now.
		reading, cancel := context.WithTimeout(ctx, patience)
		r, err := s.source(reading)
		cancel()
		if ctx.Err() != nil { // the one who asked went away: that says nothing to others
			return look{err: ctx.Err()}
		}
		s.last = look{at: time.Now(), report: r, err: err, revision: revision(r, err)}
	}
	return s.last
}

// revision changes with what there is to see, and then, after a dash, every minute, so that times on the page are not old.
func revision(r report.Report, err error) string {
	if err != nil {
		return sum([]byte(err.Error()))
	}
	minute := r.CollectedAt.Unix() / int64(time.Minute/time.Second)
	r.CollectedAt = time.Time{}
	content, err := json.Marshal(r)
	if err != nil {
		content = []byte(err.Error())
	}
	return fmt.Sprintf("%s-%d", sum(content), minute)
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	const enough = 8
	return hex.EncodeToString(digest[:enough])
}

// show writes a page. What could not be read gives a page that says so, and no verdict at all.
func (s *Site) show(w http.ResponseWriter, r *http.Request, of func(look) (view, bool)) {
	l := s.look(r.Context())
	status, v := http.StatusOK, view{Title: "Rotation"}
	if l.err != nil {
		status, v.Failure = http.StatusServiceUnavailable, l.err.Error()
	} else {
		var found bool
		if v, found = of(l); !found {
			status = http.StatusNotFound
		}
	}
	v.Revision, v.Root = l.revision, "/"+s.token+"/"
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, "page", v); err != nil {
		http.Error(w, fmt.Sprintf("the page cannot be written: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // whoever went away needs it no more
}

// events tells the revision, and again whenever it has changed, until the listener goes.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	told := ""
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		if l := s.look(r.Context()); r.Context().Err() == nil && l.revision != told {
			told = l.revision
			if _, err := fmt.Fprintf(w, "data: %s\n\n", told); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}
