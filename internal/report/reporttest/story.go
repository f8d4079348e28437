// Package reporttest makes evidence by hand, for tests of what is shown: a fleet, what happened to it, and what the
// operator would have stored of that.
package reporttest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/identity"
	"github.com/rotation-operator/rotation-operator/internal/ledger"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Namespace is where everything happens, NovaConfig the Secret that carries the credential.
const (
	Namespace  = "openstack"
	NovaConfig = "nova-cell1-compute-config"
)

// Start is when stories begin.
var Start = time.Date(2026, 2, 20, 10, 0, 0, 0, time.UTC)

// Story is a namespace in the making. Times are counted from Start.
type Story struct {
	Guard    rotationv1.CredentialGuard
	evidence report.Namespace
	fleets   []*Fleet
	question string
	now      time.Duration
	revision uint64
}

// New is a namespace with the service nova, which takes the Secret nova-cell1-compute-config to nodes, the service
// telemetry with another Secret, and a guard of RabbitMQUsers.
func New() *Story {
	s := &Story{evidence: report.Namespace{Name: Namespace, Secrets: map[string]report.Sight{}}, revision: 100}
	s.Guard = rotationv1.CredentialGuard{ObjectMeta: meta("rabbitmquser"), Spec: rotationv1.CredentialGuardSpec{
		Credential: rotationv1.CredentialKind{APIVersion: "rabbitmq.openstack.org/v1beta1", Kind: "RabbitMQUser", Resource: "rabbitmqusers",
			IdentityPaths: []string{".spec.username"}, Generations: rotationv1.GenerationsOne},
		Sources: []rotationv1.CredentialSource{{SecretNames: []string{"nova-*-compute-config"}, Keys: []string{"*.conf"},
			URLUser: &rotationv1.URLUser{Schemes: []string{"rabbit"}}}},
		Strength: rotationv1.StrengthDelivered,
	}}
	extractor, err := identity.Compile(s.Guard.Spec)
	if err != nil {
		panic(err)
	}
	s.question = extractor.ID()
	s.Service("nova", NovaConfig)
	s.Service("telemetry", "ceilometer-compute-config-data")
	return s
}

// Service adds a service that takes Secrets to nodes.
func (s *Story) Service(name string, secrets ...string) {
	service := dataplanev1.OpenStackDataPlaneService{ObjectMeta: meta(name)}
	for _, secret := range secrets {
		service.Spec.DataSources = append(service.Spec.DataSources, dataplanev1.DataSource{SecretRef: &dataplanev1.SourceReference{Name: secret}})
	}
	s.evidence.Services = append(s.evidence.Services, service)
}

// Fleet is a NodeSet in the making.
type Fleet struct {
	story   *Story
	object  dataplanev1.OpenStackDataPlaneNodeSet
	book    ledger.Book
	current map[string]fleet.Version
	drift   map[string]*metav1.Time
	settled []string
	running []string
	// Lost makes the record one that cannot be read.
	Lost bool
}

// NodeSet adds a NodeSet with the services nova and telemetry.
func (s *Story) NodeSet(name string, nodes ...string) *Fleet {
	f := &Fleet{story: s, book: ledger.NewBook(), current: map[string]fleet.Version{}, drift: map[string]*metav1.Time{}}
	f.object = dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: meta(name)}
	f.object.Generation = 1
	f.object.Spec.Services = []string{"nova", "telemetry"}
	f.object.Spec.Nodes = map[string]dataplanev1.NodeSection{}
	for _, node := range nodes {
		f.object.Spec.Nodes[node] = dataplanev1.NodeSection{HostName: node + ".example.com"}
	}
	f.book.Enrol(nodes, fleet.None)
	s.fleets = append(s.fleets, f)
	return f
}

// Origin says what the nodes held before anything.
func (f *Fleet) Origin(v fleet.Version) *Fleet {
	for name := range f.book.Nodes {
		f.book.Nodes[name] = ledger.Node{Origin: v}
	}
	if v == fleet.Unknown {
		places := map[string][]string{}
		for _, service := range f.story.evidence.Services {
			for _, source := range service.Spec.DataSources {
				places[source.SecretRef.Name] = []string{service.Name}
			}
		}
		f.book.DoubtPast(f.story.instant(f.story.now), places)
	}
	return f
}

// Leave takes nodes from the NodeSet's list.
func (f *Fleet) Leave(nodes ...string) *Fleet {
	for _, node := range nodes {
		delete(f.object.Spec.Nodes, node)
	}
	f.book.Enrol(slices.Collect(maps.Keys(f.object.Spec.Nodes)), fleet.None)
	return f
}

// At moves the clock on.
func (s *Story) At(since time.Duration) *Story {
	s.now = since
	return s
}

// Version is the version of a Secret whose only credential is that user.
func Version(user string) fleet.Version {
	return fingerprint.Of(map[string][]byte{"01-nova.conf": []byte("transport_url=rabbit://" + user + ":pw@rabbitmq:5671/")}, "Opaque")
}

// Write writes a Secret of the cluster, seen by the operator: with the credential of that user where the guard covers it.
func (s *Story) Write(secret, user string) *Story {
	s.revision++
	reading := ledger.Reading{UID: "uid-" + secret, Revision: s.revision, Version: Version(user), Changed: s.instant(s.now), Keys: []string{"01-nova.conf"}}
	if secret == NovaConfig {
		reading.Identities = map[string][]string{s.question: {user}}
	}
	s.evidence.Secrets[secret] = report.Sight{UID: reading.UID, ResourceVersion: fmt.Sprint(s.revision)}
	for _, f := range s.fleets {
		f.book.Secrets[secret] = f.book.Secrets[secret].Add(reading)
		if f.current[secret] != "" && f.current[secret] != reading.Version && f.drift[secret] == nil {
			at := metav1.NewTime(Start.Add(s.now))
			f.drift[secret] = &at
		}
	}
	return s
}

// WriteUnseen writes a Secret that the operator has not read since.
func (s *Story) WriteUnseen(secret string) *Story {
	s.revision++
	s.evidence.Secrets[secret] = report.Sight{UID: "uid-" + secret, ResourceVersion: fmt.Sprint(s.revision)}
	return s
}

// Outcome says how a Deployment went.
type Outcome struct {
	// Limit are the nodes that it went to, none for all; Failed those of them on which it did not end well.
	Limit, Failed []string
	// Open says that it is not over. Doubt is why it proves nothing.
	Open  bool
	Doubt string
	// Attempt counts the pods, 0 for 1.
	Attempt int
	// Secrets restricts it to services with these, none for all of the book's.
	Secrets []string
}

// Deploy runs the services once with what the Secrets hold now.
func (f *Fleet) Deploy(name string, o Outcome) *Fleet {
	s := f.story
	nodes := o.Limit
	if len(nodes) == 0 {
		nodes = slices.Sorted(maps.Keys(f.object.Spec.Nodes))
	}
	attempt := max(o.Attempt, 1)
	for i, service := range f.object.Spec.Services {
		run := ledger.Run{
			ID: fmt.Sprintf("%s-%s-%s-%d", f.object.Name, name, service, attempt), Deployment: name, DeploymentUID: "uid-" + name,
			Service: service, Place: service, Attempt: attempt, Carried: map[string]fleet.Versions{}, Reach: map[string]ledger.Strength{},
			Span:    fleet.Span{Began: s.instant(s.now + time.Duration(i*attempt)*5*time.Minute), Over: !o.Open},
			Mounted: s.instant(s.now + time.Minute), Fixed: true, Doubt: o.Doubt,
		}
		if run.Span.Over {
			run.Span.Ended = s.instant(s.now + time.Duration(i*attempt)*5*time.Minute + 4*time.Minute)
		}
		for _, source := range s.evidence.Services[i].Spec.DataSources {
			if secret := source.SecretRef.Name; len(o.Secrets) == 0 || slices.Contains(o.Secrets, secret) {
				run.Carried[secret] = fleet.SetOf(f.book.Secrets[secret].Current())
			}
		}
		for _, node := range nodes {
			run.Reach[node] = ledger.Delivered
			if o.Open || o.Doubt != "" || slices.Contains(o.Failed, node) {
				run.Reach[node] = ledger.Attempted
			}
		}
		if len(run.Carried) > 0 {
			f.book.Record([]ledger.Run{run})
		}
	}
	s.deployment(f, name, o)
	f.judge()
	return f
}

func (s *Story) deployment(f *Fleet, name string, o Outcome) {
	d := dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: meta(name)}
	d.CreationTimestamp = metav1.NewTime(Start.Add(s.now))
	d.Spec.NodeSets = []string{f.object.Name}
	for i, node := range o.Limit {
		if i > 0 {
			d.Spec.AnsibleLimit += ","
		}
		d.Spec.AnsibleLimit += node
	}
	if o.Open {
		f.running = append(f.running, name)
	} else {
		d.Status.Deployed = true
		f.settled = append(f.settled, string(d.UID))
	}
	if !slices.ContainsFunc(s.evidence.Deployments, func(have dataplanev1.OpenStackDataPlaneDeployment) bool { return have.Name == name }) {
		s.evidence.Deployments = append(s.evidence.Deployments, d)
	}
}

func (f *Fleet) wanted() verdict.Wanted {
	wanted := verdict.Wanted{Nodes: slices.Sorted(maps.Keys(f.object.Spec.Nodes)), Secrets: map[string]verdict.WantedSecret{}}
	for _, service := range f.story.evidence.Services {
		for _, source := range service.Spec.DataSources {
			if slices.Contains(f.object.Spec.Services, service.Name) {
				name := source.SecretRef.Name
				wanted.Secrets[name] = verdict.WantedSecret{Expected: f.book.Secrets[name].Current(), Places: []string{service.Name}}
			}
		}
	}
	return wanted
}

func (f *Fleet) judge() verdict.Drift {
	drift := verdict.Judge(f.book, f.wanted(), f.current)
	for name, state := range drift.Secrets {
		f.current[name] = state.Current
		if state.Updated == len(state.Nodes) {
			f.drift[name] = nil
		}
	}
	return drift
}

// Hold adds a CredentialHold of the RabbitMQUser of that name with that status.
func (s *Story) Hold(name string, status rotationv1.CredentialHoldStatus) *Story {
	hold := rotationv1.CredentialHold{ObjectMeta: meta("rabbitmquser-" + name), Status: status}
	hold.Spec = rotationv1.CredentialHoldSpec{Guard: s.Guard.Name, Credential: rotationv1.CredentialReference{
		Group: "rabbitmq.openstack.org", Kind: "RabbitMQUser", Resource: "rabbitmqusers", Name: name, UID: "uid-" + name}}
	if status.Verdict != "" && status.Since.IsZero() {
		hold.Status.Since = metav1.NewTime(Start.Add(s.now))
	}
	s.evidence.Holds = append(s.evidence.Holds, hold)
	return s
}

// Change changes the evidence as it is before the NodeSets are written down.
func (s *Story) Change(change func(*report.Namespace)) *Story {
	change(&s.evidence)
	return s
}

// Evidence is what somebody reads now.
func (s *Story) Evidence() report.Evidence {
	namespace := s.evidence
	namespace.Guards = append(slices.Clone(namespace.Guards), s.Guard)
	for _, f := range s.fleets {
		namespace.NodeSets = append(namespace.NodeSets, f.tracked())
	}
	return report.Evidence{
		TypeMeta:    metav1.TypeMeta{APIVersion: report.GroupVersion, Kind: "Evidence"},
		CollectedAt: Start.Add(s.now), Namespaces: []report.Namespace{namespace},
	}
}

// tracked is the NodeSet with what the operator would have written.
func (f *Fleet) tracked() report.Tracked {
	drift := f.judge()
	objects, err := trackmap.Encode(trackmap.State{NodeSetUID: string(f.object.UID), Sequence: 1, AsOf: f.story.revision, Settled: f.settled, Book: f.book}, drift)
	if err != nil {
		panic(err)
	}
	if f.Lost {
		delete(objects[""], "_runs")
	}
	rollout := &rotationv1.SecretRollout{ObjectMeta: meta(f.object.Name)}
	rollout.Status = rotationv1.SecretRolloutStatus{
		TotalNodes: int32(drift.TotalNodes), UpdatedNodes: int32(drift.UpdatedNodes), DegradedNodes: int32(drift.DoubtfulNodes),
		AllNodesUpdated: drift.AllNodesUpdated(), UnsettledDeployments: f.running,
	}
	for name, state := range drift.Secrets {
		rollout.Status.Secrets = append(rollout.Status.Secrets, rotationv1.SecretState{Name: name, ExpectedHash: rotationv1.Version(state.Expected),
			TotalNodes: int32(len(state.Nodes)), UpdatedNodes: int32(state.Updated), DriftSince: f.drift[name]})
	}
	var findings rotationv1.Findings
	for _, node := range slices.Sorted(maps.Keys(f.object.Spec.Nodes)) {
		behind, inDoubt := false, false
		for _, state := range drift.Secrets {
			candidates := state.Nodes[node].Candidates
			behind, inDoubt = behind || !candidates.IsOnly(state.Expected), inDoubt || len(candidates) > 1 || candidates.Has(fleet.Unknown)
		}
		if behind {
			findings.Behind = append(findings.Behind, node)
		}
		if inDoubt {
			findings.InDoubt = append(findings.InDoubt, node)
		}
	}
	rollout.Status.Judge(findings, metav1.NewTime(Start.Add(f.story.now)))
	return report.Tracked{NodeSet: f.object, Record: objects, Rollout: rollout}
}

func (s *Story) instant(since time.Duration) fleet.Instant {
	return fleet.Instant{Revision: 1000 + uint64(since/time.Second), Time: Start.Add(since)}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID("uid-" + name)}
}
