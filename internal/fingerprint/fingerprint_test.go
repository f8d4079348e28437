package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"
	"pgregory.net/rapid"

	"github.com/rotation-operator/rotation-operator/internal/fleet"
)

// shape is what every hash in a status.secretHashes looks like.
var shape = regexp.MustCompile(`^n[456789bcdf]{1,3}(h[456789bcdf]{1,3}){31}q$`)

// TestUpstreamGoldenValues: hashes that openstack-operator's own end-to-end tests assert on a real cluster, and three
// worked examples.
func TestUpstreamGoldenValues(t *testing.T) {
	opaque := func(keyValues ...string) fleet.Version {
		data := map[string][]byte{}
		for i := 0; i < len(keyValues); i += 2 {
			data[keyValues[i]] = []byte(keyValues[i+1])
		}
		return Of(data, "Opaque")
	}
	// openstack-operator hashes ConfigMaps the same way; their text shows that the second half of the way is right.
	configMap := func(key, value string) fleet.Version {
		return hash([]byte(`{"data":{"` + key + `":"` + value + `"}}`))
	}
	for name, tc := range map[string]struct {
		got, want fleet.Version
	}{
		"user7":               {opaque("transport_url", "rabbit://user7:pass@rabbitmq:5672/"), "nf5h55h5d7h554hddh5d9h5ch587h678h8fh64h646h5bch689h545h56fh64ch5f7h5dbhb6h5d7hb6h55fh87h5dbh577h68fh5b5hb9h588h556h687q"},
		"user8":               {opaque("transport_url", "rabbit://user8:pass@rabbitmq:5672/"), "n596h667h8ch55h7fh5cfh5c8hdch5f7h58fh7fh669h59bh5c5h657h66dh655h585h668hcch594h5cbh54dh4hf9hd7h96h59dh56ch7ch556h658q"},
		"no data":             {opaque(), "n656hcfh568h589h69h596h65dh55dh54h578h657h56dh5d8hd4h5b8h5b7h58dh59dh68h84h595h644h676h54ch95hf6h8chf9h676h64dh679h5d9q"},
		"ansibleVars":         {opaque("secret_var", "original-secret-value"), "n5d8h67h5b8hc9h5cfh54bh76h544h66chf7h8bh5fbh59chdch76h96h54bh74h9bh5bh5cdh94h566h699h99hdch65fh5d6h5fbh5bfh586hfcq"},
		"ansibleVars updated": {opaque("secret_var", "updated-secret-value"), "n56hffh656h98hc9h4h79h86h5bfh695hd7h5f9h5d4h87h85h546h7dhc5h98h676h5fh66bh66bhb5h679h77hf8hdbh569h66dhb5h59dq"},
		"nova":                {opaque("01-nova.conf", "foo\n", "nova-blank.conf", "foo\n"), "n89hd6h5h545h644h58h556hd9h5c5h598hd4h7bh5f9h5bdh649hb5h99h686h677h8ch575h665h574h587h5b6h5ddh8fh687h9bh657h675h97q"},
		"ConfigMap":           {configMap("test_var", "original-value"), "n5bbhc6h5fdhf8h57bh665h5b9h576h598h7dh5fdh667hch5b5h89h9dh668hc4hc6h669h74h575hf4h596h66dhd5h5f7hb7h689hf9hddh64q"},
		"ConfigMap updated":   {configMap("test_var", "updated-value"), "nd7h5fdh54bh8chb7h5hc8h654hf8h5d5h66bh54dh56fh7bhf5h98h66fh59ch87h9ch5d6h664h668hb7h66fh7fh598h9fh57dhfh5fch655q"},
		"ovncontroller":       {configMap("ovsdb-config", "test-ovn-config-updated"), "n56h54bh9bhcbh65ch9fhdh66dh95h5dch569h678h7fh599h7ch84h597h59h54dh58dhf6h66bh565h4hc4h587h645hd7hcch5d8h5f4h55cq"},
		"ovncontroller older": {configMap("ovsdb-config", "test-ovn-config"), "n647h6fh674h55fh56ch5bh68bh5fdh8dh59ch58dhdch59ch646h568h675h99h66bh59bhcch5b4h589h674h568hbch84h554h95h6dhc4hbh699q"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got\n%s, want\n%s", name, tc.got, tc.want)
		}
	}
}

// TestRecordedSecrets: Secrets as an API server returned them, and their hashes: all but three (ca, ssh, user9) also
// stood in a status.secretHashes of the stock operator.
func TestRecordedSecrets(t *testing.T) {
	raw, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct {
		Label, Type string
		Data        map[string][]byte
		Hash        fleet.Version
	}
	if err := json.Unmarshal(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded) < 17 {
		t.Errorf("only %d recorded Secrets", len(recorded))
	}
	for _, r := range recorded {
		if got := Of(r.Data, r.Type); got != r.Hash {
			t.Errorf("%s: got %s, recorded %s", r.Label, got, r.Hash)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	empty := Of(nil, "Opaque")
	for name, tc := range map[string]struct {
		version fleet.Version
		equal   bool
	}{
		"an empty map is no map":            {Of(map[string][]byte{}, "Opaque"), true},
		"a key with an empty value counts":  {Of(map[string][]byte{"a": {}}, "Opaque"), false},
		"the type counts":                   {Of(nil, "kubernetes.io/tls"), false},
		"a value that looks like no value":  {Of(map[string][]byte{"a": []byte("null")}, "Opaque"), false},
		"one character more is another one": {Of(map[string][]byte{"a": []byte(" ")}, "Opaque"), false},
	} {
		if (tc.version == empty) != tc.equal {
			t.Errorf("%s: equal to no data is %t, want %t", name, !tc.equal, tc.equal)
		}
	}
}

func drawData(t *rapid.T) map[string][]byte {
	key := rapid.StringMatching(`[-._a-zA-Z0-9]{1,20}`) // what an API server accepts
	return rapid.MapOfN(key, rapid.SliceOfN(rapid.Byte(), 0, 60), 0, 6).Draw(t, "data")
}

// spelled is the hashed text, written out by hand.
func spelled(data map[string][]byte, secretType string) string {
	var parts []string
	if len(data) > 0 {
		var entries []string
		for _, key := range slices.Sorted(maps.Keys(data)) {
			entries = append(entries, `"`+key+`":"`+base64.StdEncoding.EncodeToString(data[key])+`"`)
		}
		parts = append(parts, `"data":{`+strings.Join(entries, ",")+`}`)
	}
	if secretType != "" {
		parts = append(parts, `"type":"`+secretType+`"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// decoded reads a version back into the digest it was printed from.
func decoded(t *rapid.T, v fleet.Version) (sum [sha256.Size]byte) {
	digits := strings.NewReplacer("4", "0", "5", "1", "6", "2", "7", "3", "8", "4", "9", "5", "b", "6", "c", "7", "d", "8", "f", "9")
	numbers := strings.Split(strings.Trim(string(v), "nq"), "h")
	if len(numbers) != len(sum) {
		t.Fatalf("%d numbers in %s", len(numbers), v)
	}
	for i, number := range numbers {
		value, err := strconv.ParseUint(digits.Replace(number), 10, 8)
		if err != nil {
			t.Fatal(err)
		}
		sum[i] = byte(value)
	}
	return sum
}

func TestVersionIsTheDigestOfTheContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data, secretType := drawData(t), rapid.SampledFrom([]string{"Opaque", "kubernetes.io/tls", ""}).Draw(t, "type")
		got, text := Of(data, secretType), spelled(data, secretType)
		if !shape.MatchString(string(got)) {
			t.Fatalf("%s does not have the documented shape", got)
		}
		sum := sha256.Sum256([]byte(text))
		if decoded(t, got) != sum {
			t.Fatalf("%s does not decode to the digest of %s", got, text)
		}
		if want := rand.SafeEncodeString(fmt.Sprint(sum)); string(got) != want {
			t.Fatalf("got %s, upstream's library gives %s", got, want)
		}
	})
}

func TestOtherContentIsAnotherVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawData(t), drawData(t)
		if rapid.Bool().Draw(t, "alike") {
			b = maps.Clone(a)
			b[rapid.StringMatching(`[ab]`).Draw(t, "key")] = rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "value")
		}
		same := maps.EqualFunc(a, b, bytes.Equal)
		if equal := Of(a, "Opaque") == Of(b, "Opaque"); equal != same {
			t.Fatalf("equal content %t, equal version %t: %q %q", same, equal, a, b)
		}
	})
}
