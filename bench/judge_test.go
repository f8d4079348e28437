// Package bench measures what the operator does against the plain way of doing it, side by side in one run:
//
//	go test -bench . -run '^$' ./bench
package bench

import (
	"fmt"
	"testing"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// largeFleet is a NodeSet of 2,000 nodes and 12 Secrets after 20 batches of a rotation.
func largeFleet() (ledger.Book, verdict.Wanted) {
	const nodes, secrets, batches = 2000, 12, 20
	book, wanted := ledger.NewBook(), verdict.Wanted{Secrets: map[string]verdict.WantedSecret{}}
	for n := range nodes {
		wanted.Nodes = append(wanted.Nodes, fmt.Sprint("compute-", n))
	}
	book.Enrol(wanted.Nodes, fleet.None)
	var runs []ledger.Run
	for batch := range batches {
		run := ledger.Run{ID: fmt.Sprint("pod-", batch), Deployment: fmt.Sprint("batch-", batch), Place: "nova", Fixed: true,
			Carried: map[string]fleet.Versions{}, Reach: map[string]ledger.Strength{}}
		begin := uint64(batch*10 + 1)
		run.Span = fleet.Span{Began: fleet.Instant{Revision: begin}, Ended: fleet.Instant{Revision: begin + 5}, Over: true}
		for s := range secrets {
			run.Carried[fmt.Sprint("secret-", s)] = fleet.SetOf(fleet.Version(fmt.Sprint("v", batch/7)))
		}
		for n := range nodes {
			if batch == 0 || n%batches == batch {
				run.Reach[wanted.Nodes[n]] = ledger.Delivered
			}
		}
		runs = append(runs, run)
	}
	for s := range secrets {
		wanted.Secrets[fmt.Sprint("secret-", s)] = verdict.WantedSecret{Expected: "v2", Places: []string{"nova"}}
	}
	book.Record(runs)
	return book, wanted
}

// BenchmarkJudge compares judging every history once with judging every node for itself.
func BenchmarkJudge(b *testing.B) {
	book, wanted := largeFleet()
	b.Run("every history once", func(b *testing.B) {
		for b.Loop() {
			verdict.Judge(book, wanted, nil)
		}
	})
	b.Run("every node for itself", func(b *testing.B) {
		for b.Loop() {
			for secret, want := range wanted.Secrets {
				for _, node := range wanted.Nodes {
					book.Cell(node, secret, want.Places).Candidates()
				}
			}
		}
	})
}

// BenchmarkStore shows the size of the record and the time to write and read it.
func BenchmarkStore(b *testing.B) {
	book, wanted := largeFleet()
	drift := verdict.Judge(book, wanted, nil)
	var objects trackmap.Objects
	for b.Loop() {
		var err error
		if objects, err = trackmap.Encode(trackmap.State{NodeSetUID: "uid", Book: book}, drift); err != nil {
			b.Fatal(err)
		}
		if _, _, err = trackmap.Decode(objects, "uid"); err != nil {
			b.Fatal(err)
		}
	}
	size := 0
	for _, data := range objects {
		for key, value := range data {
			size += len(key) + len(value)
		}
	}
	b.ReportMetric(float64(size), "bytes")
}
