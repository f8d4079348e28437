// Package replay feeds recorded watch events through the rooms of the operator, without any API server, and says
// what stands in the book after them.
package replay

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Event is one line of a recording.
type Event struct {
	N        int             `json:"n"`
	Received time.Time       `json:"received"`
	Type     string          `json:"type"`
	Object   json.RawMessage `json:"object"`
}

// Report is what stands after the last event, by the NodeSet's name (with its namespace where two have that name).
type Report struct {
	NodeSets map[string]NodeSet `json:"nodeSets"`
	// Credentials has an answer for every identity that a guard found, or for the one that was asked for (with its
	// namespace where several have NodeSets).
	Credentials map[string]Credential `json:"credentials,omitempty"`
}

// NodeSet is what stands of one NodeSet.
type NodeSet struct {
	TotalNodes      int               `json:"totalNodes"`
	UpdatedNodes    int               `json:"updatedNodes"`
	AllNodesUpdated bool              `json:"allNodesUpdated"`
	Secrets         map[string]Secret `json:"secrets"`
}

// Secret is what stands of one Secret: its hashes, and for every node the candidates.
type Secret struct {
	CurrentHash  fleet.Version             `json:"currentHash"`
	ExpectedHash fleet.Version             `json:"expectedHash"`
	Nodes        map[string]fleet.Versions `json:"nodes"`
}

// Options say how to replay.
type Options struct {
	// At stops after the event of that number; 0 goes to the end.
	At int
	// Margin is how long before a pod's creation a kubelet may still have served the older Secret.
	Margin time.Duration
	// Guard, if there is one, says which credentials to look for.
	Guard *Guard
	// Credential is the only identity to judge; empty stands for all that were seen.
	Credential string
}

// Player holds the state of the cluster and the books as of the events so far.
type Player struct {
	options Options
	// now is when the last event was received.
	now        time.Time
	namespaces map[string]*namespace
}

type namespace struct {
	journal     *upstream.Journal
	nodeSets    map[string]*dataplanev1.OpenStackDataPlaneNodeSet
	deployments map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment
	services    map[string]*dataplanev1.OpenStackDataPlaneService
	jobs        map[types.UID]*batchv1.Job
	secrets     map[string]*corev1.Secret
	memories    map[types.UID]*upstream.Memory
	drifts      map[types.UID]verdict.Drift
	// seen are the identities that the guard found in any Secret so far.
	seen map[string]bool
}

// NewPlayer begins with an empty cluster.
func NewPlayer(options Options) *Player {
	return &Player{options: options, namespaces: map[string]*namespace{}}
}

// File plays a recording: JSON lines, gzipped where the content says so.
func (p *Player) File(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewReader(file)
	var lines io.Reader = buffered
	if magic, _ := buffered.Peek(2); slices.Equal(magic, []byte{0x1f, 0x8b}) {
		if lines, err = gzip.NewReader(buffered); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	decoder := json.NewDecoder(lines)
	for line := 1; ; line++ {
		var event Event
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: event %d: %w", path, line, err)
		}
		if p.options.At > 0 && event.N > p.options.At {
			return nil
		}
		if err := p.Play(event); err != nil {
			return fmt.Errorf("%s: event %d: %w", path, line, err)
		}
	}
}

// Play takes in one event and brings the books up to date.
func (p *Player) Play(event Event) error {
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(event.Object, &head); err != nil {
		return err
	}
	ns := p.namespaces[head.Namespace]
	if ns == nil {
		seen := map[string]bool{}
		ns = &namespace{seen: seen, journal: p.journalOf(seen), nodeSets: map[string]*dataplanev1.OpenStackDataPlaneNodeSet{},
			deployments: map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment{},
			services:    map[string]*dataplanev1.OpenStackDataPlaneService{},
			jobs:        map[types.UID]*batchv1.Job{}, secrets: map[string]*corev1.Secret{}, memories: map[types.UID]*upstream.Memory{}, drifts: map[types.UID]verdict.Drift{}}
		p.namespaces[head.Namespace] = ns
	}
	p.now = event.Received
	gone := event.Type == "DELETED"
	var err error
	switch head.Kind {
	case "Pod":
		err = decode(event.Object, func(pod *corev1.Pod) {
			began := uint64(0)
			if event.Type == "ADDED" {
				began = upstream.Revision(pod.ResourceVersion)
			}
			ns.journal.PodSeen(pod, began, gone)
		})
	case "Secret":
		err = decode(event.Object, func(secret *corev1.Secret) {
			ns.journal.SecretWritten(secret, gone)
			keep(ns.secrets, secret.Name, secret, gone)
			if gone {
				ns.journal.SecretAbsent(secret.Name, ns.journal.Turn())
			} else {
				ns.journal.SecretRead(secret, ns.journal.Turn())
			}
		})
	case "Job":
		err = decode(event.Object, func(job *batchv1.Job) { keep(ns.jobs, job.UID, job, gone) })
	case "OpenStackDataPlaneNodeSet":
		err = decode(event.Object, func(n *dataplanev1.OpenStackDataPlaneNodeSet) { keep(ns.nodeSets, n.Name, n, gone) })
	case "OpenStackDataPlaneDeployment":
		err = decode(event.Object, func(d *dataplanev1.OpenStackDataPlaneDeployment) { keep(ns.deployments, d.UID, d, gone) })
	case "OpenStackDataPlaneService":
		err = decode(event.Object, func(s *dataplanev1.OpenStackDataPlaneService) { keep(ns.services, s.Name, s, gone) })
	default:
		return nil
	}
	if err != nil {
		return err
	}
	for _, nodeSet := range ns.nodeSets {
		p.judge(ns, nodeSet)
	}
	return nil
}

func decode[T any](raw json.RawMessage, use func(*T)) error {
	object := new(T)
	if err := json.Unmarshal(raw, object); err != nil {
		return err
	}
	use(object)
	return nil
}

func keep[K comparable, V any](objects map[K]V, key K, object V, gone bool) {
	if gone {
		delete(objects, key)
		return
	}
	objects[key] = object
}

func (p *Player) worldOf(ns *namespace, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) upstream.World {
	return upstream.World{
		NodeSet: nodeSet, Deployments: ns.deployments, Services: ns.services, Jobs: ns.jobs,
		Pods: ns.journal.Pods, Secrets: ns.journal.Secrets, Margin: p.options.Margin, SharedRevisions: true,
	}
}

func (p *Player) judge(ns *namespace, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) {
	world := p.worldOf(ns, nodeSet)
	for _, name := range world.Reads() {
		if secret := ns.secrets[name]; secret != nil {
			ns.journal.SecretRead(secret, ns.journal.Turn())
		} else {
			ns.journal.SecretAbsent(name, ns.journal.Turn())
		}
	}
	if ns.memories[nodeSet.UID] == nil {
		ns.memories[nodeSet.UID] = upstream.NewMemory()
	}
	world.Settled, world.Confirmed = ns.memories[nodeSet.UID].Settled, map[types.UID]bool{}
	for _, uid := range world.Settling() { // nobody can be asked, but what is counted was recorded sooner or later
		world.Confirmed[uid] = world.Unseen(uid, ns.memories[nodeSet.UID].Book) == ""
	}
	ns.drifts[nodeSet.UID] = ns.memories[nodeSet.UID].Advance(world, p.now)
}

// Report says what stands now.
func (p *Player) Report() Report {
	report := Report{NodeSets: map[string]NodeSet{}}
	for namespace, ns := range p.namespaces {
		for name, nodeSet := range ns.nodeSets {
			if p.inSeveralNamespaces(name) {
				name = namespace + "/" + name
			}
			report.NodeSets[name] = reportOf(ns.drifts[nodeSet.UID])
		}
	}
	if p.options.Guard != nil {
		report.Credentials = p.credentials()
	}
	return report
}

func (p *Player) inSeveralNamespaces(nodeSet string) bool {
	n := 0
	for _, ns := range p.namespaces {
		if _, ok := ns.nodeSets[nodeSet]; ok {
			n++
		}
	}
	return n > 1
}

func reportOf(drift verdict.Drift) NodeSet {
	report := NodeSet{TotalNodes: drift.TotalNodes, UpdatedNodes: drift.UpdatedNodes, AllNodesUpdated: drift.AllNodesUpdated(), Secrets: map[string]Secret{}}
	for name, state := range drift.Secrets {
		secret := Secret{CurrentHash: state.Current, ExpectedHash: state.Expected, Nodes: map[string]fleet.Versions{}}
		for node, record := range state.Nodes {
			secret.Nodes[node] = record.Candidates
		}
		report.Secrets[name] = secret
	}
	return report
}
