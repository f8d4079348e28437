package trackmap_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

const kib = 1 << 10

// uid makes a name that looks like a UID of an API server.
func uid(of string) string {
	sum := sha256.Sum256([]byte(of))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// large is a fleet, as it is stored and as it is judged.
type large struct {
	state trackmap.State
	drift verdict.Drift
}

// newLarge makes a fleet of nodes and Secrets. Each Secret had the given number of versions, each delivered by a run
// to the nodes that pick gives it; host names the only host that a Secret is for, "" for all.
func newLarge(nodes, secrets []string, versions int, pick func(node, secret int) int, host func(secret int) string) large {
	book, wanted := ledger.NewBook(), verdict.Wanted{Nodes: nodes, Secrets: map[string]verdict.WantedSecret{}}
	book.Enrol(nodes, fleet.None)
	start := time.Date(2026, 2, 20, 10, 0, 0, 0, time.UTC)
	for i, secret := range secrets {
		if h := host(i); h != "" {
			book.Scope[secret] = h
		}
		place := fmt.Sprintf("service-%d", i%20)
		var expected fleet.Version
		for v := range versions {
			at := fleet.Instant{Revision: uint64(1000*v + 100), Time: start.Add(time.Duration(v) * time.Hour)}
			end := fleet.Instant{Revision: at.Revision + 50, Time: at.Time.Add(10 * time.Minute)}
			expected = fingerprint.Of(map[string][]byte{secret: []byte(fmt.Sprint(v))}, "Opaque")
			book.Secrets[secret] = book.Secrets[secret].Add(ledger.Reading{UID: uid(secret), Revision: at.Revision, Changed: at, Version: expected, Identities: map[string][]string{"5d5ea3e0bc0e7d1f": {fmt.Sprintf("user%d", v)}}})
			deployment := fmt.Sprintf("edpm-deployment-%d", v)
			id := uid(fmt.Sprint(deployment, place))
			run, ok := book.Runs[id]
			if !ok {
				run = ledger.Run{
					ID: id, Deployment: deployment, DeploymentUID: uid(deployment), Service: place, Place: place, Attempt: 1,
					Span:    fleet.Span{Began: at, Ended: end, Over: true},
					Carried: map[string]fleet.Versions{}, Reach: map[string]ledger.Strength{},
				}
				book.Runs[id] = run
			}
			run.Carried[secret] = fleet.SetOf(expected)
			for n, node := range nodes {
				if pick(n, i) == v {
					run.Reach[node] = ledger.Delivered
				}
			}
		}
		wanted.Secrets[secret] = verdict.WantedSecret{Expected: expected, Places: []string{place}}
	}
	state := trackmap.State{NodeSetUID: uid("nodeset"), Sequence: 4711, AsOf: 123456789, Book: book}
	return large{state, verdict.Judge(book, wanted, nil)}
}

func numbered(format string, count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf(format, i)
	}
	return names
}

func uniform(int, int) int { return 0 }

// scattered gives every node a version of its own choice, the same in every run of the tests.
func scattered(versions int) func(int, int) int {
	r := rand.New(rand.NewPCG(1, 2))
	return func(int, int) int { return r.IntN(versions) }
}

func everyHost(int) string { return "" }

// largeFleets are the sizes that are promised.
var largeFleets = map[string]struct {
	make    func() large
	objects int // how many ConfigMaps at most
	total   int // how many bytes in all at most
}{
	"2 nodes × 20 Secrets": {func() large {
		return newLarge(numbered("edpm-compute-%d", 2), numbered("secret-%d", 20), 1, uniform, everyHost)
	}, 1, 40 * kib},
	"1,000 nodes × 20 Secrets, uniform": {func() large {
		return newLarge(numbered("edpm-compute-%d", 1000), numbered("secret-%d", 20), 1, uniform, everyHost)
	}, 1, 64 * kib},
	"1,000 nodes × 20 Secrets, 4 versions at random": {func() large {
		return newLarge(numbered("edpm-compute-%d", 1000), numbered("secret-%d", 20), 4, scattered(4), everyHost)
	}, 1, 300 * kib},
	"5,000 nodes × 20 Secrets, uniform": {func() large {
		return newLarge(numbered("edpm-compute-%d.ctlplane.example.com", 5000), numbered("secret-%d", 20), 1, uniform, everyHost)
	}, 1, 64 * kib},
	"5,000 nodes × 20 Secrets, 4 versions at random": {func() large {
		return newLarge(numbered("edpm-compute-%d", 5000), numbered("secret-%d", 20), 4, scattered(4), everyHost)
	}, 5, 1200 * kib},
	"1,000 nodes × 5 Secrets, names that do not fold": {func() large {
		names := numbered("%d", 1000)
		for i, name := range names {
			names[i] = uid(name)
		}
		return newLarge(names, numbered("secret-%d", 5), 2, scattered(2), everyHost)
	}, 1, 512 * kib},
	"1,000 nodes × 4 TLS Secrets each": {func() large {
		return newLarge(numbered("edpm-compute-%d", 1000), numbered("cert-service-default-edpm-compute-%d", 4000), 1, uniform,
			func(secret int) string { return fmt.Sprintf("edpm-compute-%d", secret/4) })
	}, 9, 4 * kib * kib},
}

func sizeOf(data map[string]string) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}

func TestLargeFleetsFit(t *testing.T) {
	for name, fleet := range largeFleets {
		l := fleet.make()
		objects, err := trackmap.Encode(l.state, l.drift)
		if err != nil {
			t.Fatal(name, err)
		}
		total := 0
		for suffix, data := range objects {
			total += sizeOf(data)
			if sizeOf(data) > 700*kib {
				t.Errorf("%s: ConfigMap %q has %d bytes", name, suffix, sizeOf(data))
			}
		}
		t.Logf("%s: %d bytes in %d ConfigMaps", name, total, len(objects))
		if total > fleet.total || len(objects) > fleet.objects {
			t.Errorf("%s: %d bytes in %d ConfigMaps, promised are %d in %d", name, total, len(objects), fleet.total, fleet.objects)
		}
		got, _, err := trackmap.Decode(objects, l.state.NodeSetUID)
		if err != nil {
			t.Fatal(name, err)
		}
		got.Shards = nil
		if !reflect.DeepEqual(l.state, got) {
			t.Errorf("%s: another state came back", name)
		}
	}
}

// TestOneChangeTouchesOneShard: what changed in one Secret is written to its shard and to "".
func TestOneChangeTouchesOneShard(t *testing.T) {
	l := largeFleets["1,000 nodes × 4 TLS Secrets each"].make()
	before, err := trackmap.Encode(l.state, l.drift)
	if err != nil {
		t.Fatal(err)
	}
	if l.state.Shards, err = trackmap.Shards(before[""]); err != nil {
		t.Fatal(err)
	}
	const changed = "cert-service-default-edpm-compute-0"
	l.state.Sequence++
	l.state.Book.Secrets[changed] = l.state.Book.Secrets[changed].Add(ledger.Reading{UID: uid(changed), Revision: 1 << 40, Version: user8})
	after, err := trackmap.Encode(l.state, l.drift)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for suffix, data := range after {
		if sizeOf(data) != sizeOf(before[suffix]) || !cmp.Equal(data, before[suffix]) {
			written = append(written, suffix)
		}
	}
	if len(written) != 2 || len(after) != len(before) {
		t.Errorf("%q of %d ConfigMaps are written, want \"\" and one shard", written, len(after))
	}
}

// TestLimits: text changes its layout exactly where it would exceed a limit.
func TestLimits(t *testing.T) {
	l := newLarge(numbered("edpm-compute-%d", 20), numbered("secret-%d", 20), 1, uniform, everyHost)
	plain, err := trackmap.Encode(l.state, l.drift)
	if err != nil {
		t.Fatal(err)
	}
	whole := sizeOf(plain[""])
	for name, tc := range map[string]struct {
		plain, object     int
		isPlain, isSingle bool
	}{
		"all of it fits":              {whole, whole, true, true},
		"one byte too much for views": {whole - 1, whole, false, true},
		"one byte too much for one":   {whole, whole - 1, true, false},
		"nothing fits":                {0, 0, false, false},
	} {
		objects, err := trackmap.EncodeWithin(l.state, l.drift, tc.plain, tc.object, kib*kib)
		if err != nil {
			t.Fatal(err)
		}
		isPlain, isSingle := strings.Contains(objects[""]["_meta"], `"format":1`), len(objects) == 1
		if isPlain != tc.isPlain || isSingle != tc.isSingle {
			t.Errorf("%s: views in format 1 %t, one ConfigMap %t", name, isPlain, isSingle)
		}
	}
	few := trackmap.State{Book: ledger.NewBook()}
	for i := range 30 {
		few.Book.Scope[fmt.Sprint(i)] = "compute-0"
	}
	few.Book.Scope["large"] = strings.Repeat("a", 1000)
	if objects, err := trackmap.EncodeWithin(few, verdict.Drift{}, 0, 1000, 3000); err != nil || len(objects) > 3 {
		t.Errorf("one Secret too large for a shard has the others spread over %d (%v)", len(objects), err)
	}
	onlyNodes := trackmap.State{Book: ledger.NewBook()}
	onlyNodes.Book.Enrol(numbered("edpm-compute-%d", 20), fleet.None)
	objects, err := trackmap.EncodeWithin(onlyNodes, verdict.Drift{}, 0, 0, kib)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := trackmap.Decode(objects, ""); err != nil {
		t.Error("nothing to put into shards:", err)
	}
}

// TestTornRunFolds: Secrets of which a run carried one of the same two versions stand together.
func TestTornRunFolds(t *testing.T) {
	book, torn := ledger.NewBook(), fleet.SetOf("a", "b")
	book.Secrets["x1"] = ledger.History{Held: []ledger.Held{{Version: "a"}, {Version: "b"}}}
	book.Secrets["x2"] = ledger.History{Held: []ledger.Held{{Version: "b"}, {Version: "a"}}}
	book.Runs["1"] = ledger.Run{ID: "1", Carried: map[string]fleet.Versions{"x1": torn, "x2": torn}}
	objects, err := trackmap.Encode(trackmap.State{Book: book}, verdict.Drift{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `"carried":[{"versions":[0,1],"secrets":"x[1-2]"}]`; !strings.Contains(objects[""]["_runs"], want) {
		t.Errorf("%s has no %s", objects[""]["_runs"], want)
	}
}

// TestRunOverAThousandNodesIsSmall: a finished Deployment costs a few hundred bytes for each run.
func TestRunOverAThousandNodesIsSmall(t *testing.T) {
	l := newLarge(numbered("edpm-compute-%d", 1000), numbered("secret-%d", 1), 1, uniform, everyHost)
	objects, err := trackmap.Encode(l.state, l.drift)
	if err != nil {
		t.Fatal(err)
	}
	if text := objects[""]["_runs"]; len(text) > 500 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

// TestGroupedView: what people read of a large fleet.
func TestGroupedView(t *testing.T) {
	l := newLarge(numbered("edpm-compute-%d", 2000), []string{secret}, 2, func(node, _ int) int {
		if node == 500 {
			return 0
		}
		return 1
	}, everyHost)
	objects, err := trackmap.Encode(l.state, l.drift)
	if err != nil {
		t.Fatal(err)
	}
	v0, v1 := fingerprint.Of(map[string][]byte{secret: []byte("0")}, "Opaque"), fingerprint.Of(map[string][]byte{secret: []byte("1")}, "Opaque")
	want := strings.NewReplacer("V0", string(v0), "V1", string(v1)).Replace(`{"format":2,"currentHash":"","expectedHash":"V1","groups":[` +
		`{"secretHash":"V1","deploymentName":"edpm-deployment-1","lastUpdated":"2026-02-20T11:10:00Z","count":1999,"nodes":"edpm-compute-[0-499,501-1999]"},` +
		`{"secretHash":"V0","deploymentName":"edpm-deployment-0","lastUpdated":"2026-02-20T10:10:00Z","count":1,"nodes":"edpm-compute-500"}]}`)
	if diff := cmp.Diff(want, objects[""][secret]); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkEncode(b *testing.B) {
	benchmark(b, func(l large, _ trackmap.Objects) error {
		_, err := trackmap.Encode(l.state, l.drift)
		return err
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(l large, objects trackmap.Objects) error {
		_, _, err := trackmap.Decode(objects, l.state.NodeSetUID)
		return err
	})
}

func benchmark(b *testing.B, do func(large, trackmap.Objects) error) {
	for name, fleet := range largeFleets {
		l := fleet.make()
		objects, err := trackmap.Encode(l.state, l.drift)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := do(l, objects); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
