package bench

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rotation-operator/rotation-operator/internal/lab/browser"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/report/reporttest"
	"github.com/rotation-operator/rotation-operator/internal/web"
)

// BenchmarkPage measures, in a real browser, from asking for a page of 2,000 nodes and 12 Secrets to the end of its first
// painting, beside the same page of 20 nodes. The report has been read: that is the API server's time.
func BenchmarkPage(b *testing.B) {
	if err := browser.Available(); err != nil {
		b.Skip(err)
	}
	for _, size := range []struct {
		name  string
		nodes int
	}{{"20 nodes", 20}, {"2000 nodes", 2000}} {
		r := report.Build(reporttest.Large(size.nodes, 13).Evidence()) // 13 with the one that is rotated: 12 are shown
		if len(r.NodeSets[0].NodeList) != size.nodes || len(r.NodeSets[0].Secrets) != 12 {
			b.Fatalf("%d nodes and %d Secrets", len(r.NodeSets[0].NodeList), len(r.NodeSets[0].Secrets))
		}
		server := httptest.NewServer(web.New(func(context.Context) (report.Report, error) { return r, nil }, "TOKEN", time.Hour))
		tab, err := browser.Open(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		for _, page := range []struct{ name, path string }{{"overview", ""}, {"grid", "nodesets/" + reporttest.Namespace + "/edpm"}} {
			b.Run(size.name+"/"+page.name, func(b *testing.B) {
				painted := 0.0
				for b.Loop() {
					if err := tab.Show(server.URL+"/TOKEN/"+page.path, 1280, 900, false); err != nil {
						b.Fatal(err)
					}
					var at float64
					if err := chromedp.Run(tab.Context, chromedp.Poll(`performance.getEntriesByName("first-contentful-paint")[0]?.startTime`, &at)); err != nil {
						b.Fatal(err)
					}
					painted += at
				}
				b.ReportMetric(painted/float64(b.N), "first-paint-ms")
			})
		}
		tab.Close()
		server.CloseClientConnections()
		server.Close()
	}
}
