// Package store keeps what is known of a NodeSet in ConfigMaps. They outlive it, for its nodes run on.
package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rotation-operator/rotation-operator/internal/trackmap"
)

const (
	// LabelNodeSet is on every ConfigMap of ours and names the NodeSet that it is about.
	LabelNodeSet = "rotation.openstack.org/nodeset"
	// suffix of the ConfigMap's name after the NodeSet's.
	suffix = "-secret-tracking"
	// setAside comes between that and a resourceVersion in the name of a copy of what could not be read.
	setAside = "-unreadable-"
)

// ConfigMapName is the name of the ConfigMap that holds what is known of the NodeSet.
func ConfigMapName(nodeSet string) string { return nodeSet + suffix }

// Store reads and writes. Reads go to the API server, never to a cache.
type Store struct {
	Client client.Client
	Reader client.Reader
}

// Stored is what the cluster holds of one NodeSet, as it was read or written last.
type Stored struct {
	// Objects is the text, by what follows the ConfigMap's name.
	Objects trackmap.Objects
	// versions are the resourceVersions that the text was read at or written with.
	versions map[string]string
}

// Version is the resourceVersion of the first ConfigMap, empty where there is none.
func (s Stored) Version() string { return s.versions[""] }

// Load reads the ConfigMap and the shards that it names.
func (s Store) Load(ctx context.Context, nodeSet client.ObjectKey) (Stored, error) {
	stored := Stored{Objects: trackmap.Objects{}, versions: map[string]string{}}
	if err := s.read(ctx, nodeSet, "", stored); err != nil {
		return stored, err
	}
	shards, err := trackmap.Shards(stored.Objects[""])
	if err != nil {
		return stored, nil // Decode will say what is wrong
	}
	for shard := range shards {
		if err := s.read(ctx, nodeSet, shard, stored); err != nil {
			return stored, err
		}
	}
	return stored, nil
}

func (s Store) read(ctx context.Context, nodeSet client.ObjectKey, shard string, into Stored) error {
	var cm corev1.ConfigMap
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: nodeSet.Namespace, Name: ConfigMapName(nodeSet.Name) + shard}, &cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", ConfigMapName(nodeSet.Name)+shard, err)
	}
	into.Objects[shard], into.versions[shard] = cm.Data, cm.ResourceVersion
	return nil
}

// Save writes the text: new shards first, then the ConfigMap that names them, then away with those out of use. A
// ConfigMap that was changed by somebody else since is a conflict.
func (s Store) Save(ctx context.Context, nodeSet client.ObjectKey, objects trackmap.Objects, before Stored) (Stored, error) {
	after := Stored{Objects: objects, versions: map[string]string{}}
	suffixes := slices.Sorted(maps.Keys(objects))
	slices.Reverse(suffixes) // "" comes last
	for _, shard := range suffixes {
		if maps.Equal(objects[shard], before.Objects[shard]) && before.versions[shard] != "" {
			after.versions[shard] = before.versions[shard]
			continue
		}
		version, err := s.write(ctx, nodeSet, shard, objects[shard], before.versions[shard])
		if err != nil {
			return before, err
		}
		after.versions[shard] = version
	}
	for shard := range before.versions {
		if _, used := objects[shard]; !used {
			cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: nodeSet.Namespace, Name: ConfigMapName(nodeSet.Name) + shard}}
			if err := client.IgnoreNotFound(s.Client.Delete(ctx, &cm)); err != nil {
				return after, fmt.Errorf("deleting ConfigMap %s: %w", cm.Name, err)
			}
		}
	}
	return after, nil
}

func (s Store) write(ctx context.Context, nodeSet client.ObjectKey, shard string, data map[string]string, version string) (string, error) {
	cm := s.configMap(nodeSet, ConfigMapName(nodeSet.Name)+shard, data)
	var err error
	if version == "" {
		err = s.Client.Create(ctx, cm)
		if apierrors.IsAlreadyExists(err) && shard != "" {
			// a shard that a write before us left behind; "" never came to name it
			err = s.Client.Update(ctx, cm)
		}
	} else {
		cm.ResourceVersion = version
		err = s.Client.Update(ctx, cm)
	}
	if err != nil {
		return "", fmt.Errorf("writing ConfigMap %s: %w", cm.Name, err)
	}
	return cm.ResourceVersion, nil
}

// SetAside copies text that cannot be read to a ConfigMap of its own, before it is written over, and gives its name.
func (s Store) SetAside(ctx context.Context, nodeSet client.ObjectKey, stored Stored) (string, error) {
	var first string
	for shard, data := range stored.Objects {
		name := strings.Join([]string{ConfigMapName(nodeSet.Name), shard, setAside, stored.versions[shard]}, "")
		err := s.Client.Create(ctx, s.configMap(nodeSet, name, data))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("setting ConfigMap %s aside: %w", ConfigMapName(nodeSet.Name)+shard, err)
		}
		if shard == "" {
			first = name
		}
	}
	return first, nil
}

func (s Store) configMap(nodeSet client.ObjectKey, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: nodeSet.Namespace, Name: name, Labels: map[string]string{LabelNodeSet: label(nodeSet.Name)}},
		Data:       data,
	}
}

// label is the NodeSet's name as far as the value of a label can hold it; it only helps to find ConfigMaps.
func label(name string) string {
	const limit = 63
	if len(name) > limit {
		name = strings.TrimRight(name[:limit], "-.")
	}
	return name
}

// Record is one NodeSet of which something is stored.
type Record struct {
	NodeSet client.ObjectKey
	// Position is the revision up to which everything had been seen when it was written last, 0 where that cannot be
	// read.
	Position uint64
}

// Records lists what is stored in a namespace, or in all of them for "". The NodeSets may be gone.
func (s Store) Records(ctx context.Context, namespace string) ([]Record, error) {
	var list corev1.ConfigMapList
	if err := s.Reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{LabelNodeSet}); err != nil {
		return nil, fmt.Errorf("listing ConfigMaps: %w", err)
	}
	var records []Record
	for _, cm := range list.Items {
		nodeSet, first := strings.CutSuffix(cm.Name, suffix)
		if !first {
			continue // a shard, or what was set aside
		}
		position, err := trackmap.Position(cm.Data)
		if err != nil {
			position = 0
		}
		records = append(records, Record{NodeSet: client.ObjectKey{Namespace: cm.Namespace, Name: nodeSet}, Position: position})
	}
	return records, nil
}

// NodeSetOf gives the name of the NodeSet that a ConfigMap of ours is about.
func NodeSetOf(configMap string) string {
	if i := strings.LastIndex(configMap, suffix); i >= 0 {
		return configMap[:i]
	}
	return ""
}

// Delete drops all that is stored of a NodeSet.
func (s Store) Delete(ctx context.Context, nodeSet client.ObjectKey) error {
	stored, err := s.Load(ctx, nodeSet)
	if err != nil {
		return err
	}
	shards := slices.Sorted(maps.Keys(stored.Objects)) // "" comes first: without it the others say nothing
	for _, shard := range shards {
		cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: nodeSet.Namespace, Name: ConfigMapName(nodeSet.Name) + shard}}
		if err := client.IgnoreNotFound(s.Client.Delete(ctx, &cm)); err != nil {
			return fmt.Errorf("deleting ConfigMap %s: %w", cm.Name, err)
		}
	}
	return nil
}

// IsLost tells whether an error of Decode means that what was known is gone and must be found out anew.
func IsLost(err error) bool {
	return errors.Is(err, trackmap.ErrCorrupt) || errors.Is(err, trackmap.ErrForeign)
}
