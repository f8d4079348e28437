package upstream

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
)

// Labels of the Secrets that cert-manager fills for one host and one key of a service's tlsCerts.
const (
	labelCertNodeSet = "osdpns"
	labelCertService = "osdp-service"
	labelCertKey     = "osdp-service-cert-key"
	labelCertHost    = "hostname"
)

// IsCertFor tells whether a Secret holds a certificate for a host of the NodeSet.
func IsCertFor(secret metav1.Object, nodeSet string) bool {
	return secret.GetLabels()[labelCertNodeSet] == nodeSet && secret.GetLabels()[labelCertService] != ""
}

// CertLabels are labels by which a Secret is told to hold a certificate for that host of the NodeSet, for who knows that
// it does and not which labels it has.
func CertLabels(nodeSet, host string) map[string]string {
	return map[string]string{labelCertNodeSet: nodeSet, labelCertService: "any", labelCertHost: host}
}

// inventoryKey is the key of a NodeSet's inventory Secret.
const inventoryKey = "inventory"

// Content is what is kept of one version of a Secret: nothing of its values but what says where they go.
type Content struct {
	// Inventory is the parsed inventory, nil where the Secret is none or cannot be parsed.
	Inventory *hostpattern.Inventory
	// Certs gives, where the Secret is a bundle of certificates, the version of each host's own certificate Secret.
	Certs map[string]fleet.Version
}

// Secret is what was seen of one Secret.
type Secret struct {
	History ledger.History
	// Contents holds what is kept of the versions read by this process.
	Contents map[fleet.Version]Content
	// Labels are those of the last sight.
	Labels map[string]string
	// confirmed is the turn of the last live read that found it as History ends.
	confirmed uint64
	// announced are revisions that a watch told of and nobody has read yet.
	announced []uint64
	// told and toldUID are what the last list showed.
	told    uint64
	toldUID string
	// gap says that something may have been written that no watch told of.
	gap bool
	// deleted says that the last announcement was of its deletion.
	deleted bool
}

// Exists tells whether the Secret was there when it was last read.
func (s Secret) Exists() bool { return s.History.UID != "" }

// Stale tells whether the watch has told of something newer than the last read.
func (s Secret) Stale() bool { return len(s.announced) > 0 || s.gap || len(s.History.Held) == 0 }

// announce notes that the Secret was written, as a watch tells it.
func (s Secret) announce(meta metav1.Object, deleted bool) Secret {
	revision := Revision(meta.GetResourceVersion())
	if revision <= s.History.Revision && string(meta.GetUID()) == s.History.UID && !deleted {
		return s
	}
	s.Labels, s.deleted = meta.GetLabels(), deleted
	s.announced = append(slices.Clone(s.announced), revision)
	return s
}

// read adds a live read. It is refused (false) while it is ahead of the watch, which then has more to tell.
func (s Secret) read(secret *corev1.Secret, turn uint64, identify Identify) (Secret, bool) {
	revision := Revision(secret.ResourceVersion)
	known := string(secret.UID) == s.History.UID && revision == s.History.Revision
	if !known && !s.gap && !slices.Contains(s.announced, revision) {
		return s, false
	}
	version := fingerprint.Of(secret.Data, string(secret.Type))
	others := slices.ContainsFunc(s.announced, func(r uint64) bool { return r < revision })
	reading := ledger.Reading{
		UID: string(secret.UID), Revision: revision, Version: version, Missed: s.gap || others,
		Changed: fleet.Instant{Revision: revision, Time: dataWritten(secret)}, Keys: slices.Sorted(maps.Keys(secret.Data)),
	}
	if identify != nil {
		reading.Identities = identify(secret.Name, secret.Data)
	}
	s.History = s.History.Add(reading)
	s.Contents = maps.Clone(s.Contents)
	if s.Contents == nil {
		s.Contents = map[fleet.Version]Content{}
	}
	s.Contents[version] = contentOf(secret)
	s.Labels = secret.Labels
	s.announced = slices.DeleteFunc(slices.Clone(s.announced), func(r uint64) bool { return r <= revision })
	s.gap, s.deleted = false, len(s.announced) > 0 && s.deleted
	s.confirmed = max(s.confirmed, turn)
	return s, true
}

// absent adds the finding that a live read found no such Secret.
func (s Secret) absent(turn uint64) Secret {
	revision := s.History.Revision
	for _, announced := range s.announced {
		revision = max(revision, announced)
	}
	if len(s.History.Held) > 0 && s.History.UID != "" {
		s.History = s.History.Add(ledger.Reading{Revision: revision, Version: fleet.Unknown, Changed: fleet.Instant{Revision: revision}})
	} else {
		s.History.Held = []ledger.Held{{Version: fleet.Unknown}}
	}
	s.announced, s.gap = nil, false
	s.confirmed = max(s.confirmed, turn)
	return s
}

// knownSince tells whether a live read after the pod was seen with its containers started has confirmed what the
// Secret held until then.
func (s Secret) knownSince(pod Pod) bool {
	return !pod.Mounted.IsZero() && !s.Stale() && s.confirmed > pod.seen
}

// dataWritten is when the content was last written: the latest time of the managers that own data. Where no
// managedFields tell, nothing does.
func dataWritten(secret *corev1.Secret) time.Time {
	var last time.Time
	for _, entry := range secret.ManagedFields {
		if entry.FieldsV1 == nil {
			continue
		}
		fields := entry.FieldsV1.GetRawString()
		owns := strings.Contains(fields, `"f:data"`) || strings.Contains(fields, `"f:type"`)
		if owns && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

func contentOf(secret *corev1.Secret) Content {
	var content Content
	if raw, ok := secret.Data[inventoryKey]; ok {
		content.Inventory = parseInventory(raw)
	}
	content.Certs = splitBundle(secret.Data)
	return content
}

// parseInventory reads the YAML of an inventory Secret: one group, named like the NodeSet, and its hosts in the order
// of the file. Child groups or anything else that would need Ansible's own reading make it nil.
func parseInventory(raw []byte) *hostpattern.Inventory {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil || len(document.Content) != 1 || !isMapping(document.Content[0]) {
		return nil
	}
	inventory := &hostpattern.Inventory{}
	for name, group := range pairs(document.Content[0]) {
		if !isMapping(group) {
			return nil
		}
		parsed := hostpattern.Group{Name: name}
		for key, value := range pairs(group) {
			switch key {
			case "hosts":
				if !isMapping(value) {
					return nil
				}
				for host := range pairs(value) {
					parsed.Hosts = append(parsed.Hosts, host)
				}
			case "vars":
			default:
				return nil
			}
		}
		inventory.Groups = append(inventory.Groups, parsed)
	}
	return inventory
}

// isMapping tells whether the node is a plain mapping or null, which is an empty one.
func isMapping(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode || node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}

// pairs iterates over a YAML mapping in its order; anything else has no pairs.
func pairs(node *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i].Value, node.Content[i+1]) {
				return
			}
		}
	}
}

// splitBundle takes a bundle of certificates apart: its keys are <host>-tls.crt, <host>-tls.key and <host>-ca.crt.
// Each host's part, put together again, has the hash of the Secret that it was copied from.
func splitBundle(data map[string][]byte) map[string]fleet.Version {
	parts := map[string]map[string][]byte{}
	for key, value := range data {
		for _, part := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, corev1.ServiceAccountRootCAKey} {
			if name, ok := strings.CutSuffix(key, "-"+part); ok {
				host, _, _ := strings.Cut(name, ".")
				if parts[host] == nil {
					parts[host] = map[string][]byte{}
				}
				parts[host][part] = value
			}
		}
	}
	certs := map[string]fleet.Version{}
	for host, part := range parts {
		certs[host] = fingerprint.Of(part, string(corev1.SecretTypeTLS))
	}
	return certs
}
