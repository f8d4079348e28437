package tracking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fleet"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
	"github.com/rotation-operator/rotation-operator/internal/upstream"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

// Evidence is what one decision rests on. All of it was read from the API server for this decision.
type Evidence struct {
	NodeSets []verdict.NodeSet
	// Secrets are the covered ones in the cluster, by name; nil where one could not be read, which Unread explains.
	Secrets map[string]*corev1.Secret
	Unread  map[string]error
	// Reads are the resource versions, by plural kind of a list or secrets/<name>.
	Reads map[string]string
}

// ErrBehind says that the watches have not told yet of all that a live read found. It passes by itself.
var ErrBehind = errors.New("the watches are behind the API server")

// Margin is how long a kubelet may serve older content.
func (t *Tracker) Margin() time.Duration { return t.options.Margin }

// SetIdentify sets what is asked of every Secret of the namespace that is read from now on.
func (t *Tracker) SetIdentify(namespace string, identify upstream.Identify) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.identify[namespace] = identify
	t.journal(namespace).Identify = identify
}

func (t *Tracker) tellJudged(namespace, secret string) {
	if t.options.Judged != nil {
		t.options.Judged(namespace, secret)
	}
}

// ForgetDeleted drops what is stored of NodeSets that do not exist any more.
func (t *Tracker) ForgetDeleted(ctx context.Context, namespace string) error {
	t.mutex.Lock()
	departed := t.departed[namespace]
	delete(t.departed, namespace)
	t.mutex.Unlock()
	if !departed {
		return nil
	}
	err := t.forgetDeleted(ctx, namespace)
	if err != nil {
		t.mutex.Lock()
		t.departed[namespace] = true
		t.mutex.Unlock()
	}
	return err
}

func (t *Tracker) forgetDeleted(ctx context.Context, namespace string) error {
	records, err := t.store.Records(ctx, namespace)
	if err != nil {
		return err
	}
	for _, record := range records {
		err := t.options.Live.Get(ctx, record.NodeSet, &dataplanev1.OpenStackDataPlaneNodeSet{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("NodeSet %s: %w", record.NodeSet.Name, err)
		}
		if err := t.store.Delete(ctx, record.NodeSet); err != nil {
			return err
		}
	}
	return nil
}

// Evidence gathers what is known of all NodeSets of a namespace, those that are deleted included, and reads every
// Secret that is covered. Nothing of it is taken from a cache; what the journals hold is used once they are found to
// be as new as live lists.
func (t *Tracker) Evidence(ctx context.Context, namespace string, covers func(secret string) bool) (Evidence, error) {
	evidence := Evidence{Secrets: map[string]*corev1.Secret{}, Unread: map[string]error{}, Reads: map[string]string{}}
	select {
	case <-t.ready:
	default:
		return evidence, ErrBehind
	}
	scene, err := t.look(ctx, namespace, evidence.Reads)
	if err != nil {
		return evidence, err
	}
	for i := range scene.secrets.Items {
		if name := scene.secrets.Items[i].Name; covers(name) {
			if err := t.readCovered(ctx, namespace, name, &evidence); err != nil {
				return evidence, err
			}
		}
	}
	there := map[string]bool{}
	for i := range scene.nodeSets.Items {
		nodeSet := &scene.nodeSets.Items[i]
		there[nodeSet.Name] = true
		one, err := t.judgeLive(ctx, nodeSet, scene)
		if err != nil {
			return evidence, err
		}
		evidence.NodeSets = append(evidence.NodeSets, one)
	}
	deleted, err := t.deleted(ctx, namespace, there, scene)
	evidence.NodeSets = append(evidence.NodeSets, deleted...)
	return evidence, err
}

// scene is what live lists show of one namespace.
type scene struct {
	nodeSets    dataplanev1.OpenStackDataPlaneNodeSetList
	deployments dataplanev1.OpenStackDataPlaneDeploymentList
	services    dataplanev1.OpenStackDataPlaneServiceList
	jobs        batchv1.JobList
	pods        corev1.PodList
	secrets     metav1.PartialObjectMetadataList
}

// look lists. Pods come last, so that none of a Deployment that was seen is missed.
func (t *Tracker) look(ctx context.Context, namespace string, reads map[string]string) (*scene, error) {
	s := &scene{}
	s.secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	ansible := client.MatchingLabels{upstream.LabelApp: upstream.AppValue}
	for _, list := range []struct {
		of      string
		into    client.ObjectList
		options []client.ListOption
	}{
		{"secrets", &s.secrets, nil},
		{"openstackdataplaneservices", &s.services, nil},
		{"openstackdataplanenodesets", &s.nodeSets, nil},
		{"openstackdataplanedeployments", &s.deployments, nil},
		{"jobs", &s.jobs, []client.ListOption{ansible}},
		{"pods", &s.pods, []client.ListOption{ansible}},
	} {
		if err := t.options.Live.List(ctx, list.into, append(list.options, client.InNamespace(namespace))...); err != nil {
			return nil, fmt.Errorf("listing %s: %w", list.of, err)
		}
		reads[list.of] = list.into.GetResourceVersion()
	}
	return s, nil
}

// readCovered reads a Secret and lets the journal know, so that its identities become known with its version.
func (t *Tracker) readCovered(ctx context.Context, namespace, name string, evidence *Evidence) error {
	t.mutex.Lock()
	turn := t.journal(namespace).Turn()
	t.mutex.Unlock()
	secret := &corev1.Secret{}
	err := t.options.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return ErrBehind // it was in the list
	case err != nil:
		evidence.Secrets[name], evidence.Unread[name] = nil, err
		return nil
	}
	evidence.Secrets[name], evidence.Reads["secrets/"+name] = secret, secret.ResourceVersion
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if !t.journal(namespace).SecretRead(secret, turn) {
		return ErrBehind
	}
	return nil
}

// judgeLive advances a copy of what is known of the NodeSet by what is there now.
func (t *Tracker) judgeLive(ctx context.Context, nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, s *scene) (verdict.NodeSet, error) {
	t.mutex.Lock()
	state := t.states[client.ObjectKeyFromObject(nodeSet)]
	t.mutex.Unlock()
	if state == nil || state.uid != nodeSet.UID {
		return verdict.NodeSet{}, fmt.Errorf("%w: nothing is recorded of NodeSet %s yet", ErrBehind, nodeSet.Name)
	}
	state.mutex.Lock()
	memory := state.memory.Clone()
	state.mutex.Unlock()
	world := t.worldOf(nodeSet, memory, s)
	if err := t.readEnvironments(ctx, &world); err != nil {
		return verdict.NodeSet{}, err
	}
	ahead, err := t.readSecrets(ctx, &world)
	if err != nil {
		return verdict.NodeSet{}, err
	}
	if ahead {
		return verdict.NodeSet{}, ErrBehind
	}
	for i := range s.pods.Items {
		if !world.HasSeen(&s.pods.Items[i]) {
			return verdict.NodeSet{}, fmt.Errorf("%w: pod %s was not seen yet", ErrBehind, s.pods.Items[i].Name)
		}
	}
	for _, uid := range world.Settling() { // the scene is what confirm would list
		world.Confirmed[uid] = true
	}
	drift := memory.Advance(world, time.Now())
	world.Settled = memory.Settled
	wanted := world.Wanted(nil)
	wanted.Missing = drift.Missing
	return verdict.NodeSet{Name: nodeSet.Name, Book: memory.Book, Wanted: wanted, Unsettled: world.Unsettled(), Told: world.Told()}, nil
}

// worldOf is the world as the scene shows it.
func (t *Tracker) worldOf(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, memory *upstream.Memory, s *scene) upstream.World {
	world := upstream.World{
		NodeSet: nodeSet, Margin: t.options.Margin, Settled: memory.Settled,
		Deployments:  map[types.UID]*dataplanev1.OpenStackDataPlaneDeployment{},
		Services:     map[string]*dataplanev1.OpenStackDataPlaneService{},
		Jobs:         map[types.UID]*batchv1.Job{},
		Environments: map[string]upstream.Environment{},
		Confirmed:    map[types.UID]bool{},
	}
	for i := range s.deployments.Items {
		world.Deployments[s.deployments.Items[i].UID] = &s.deployments.Items[i]
	}
	for i := range s.services.Items {
		world.Services[s.services.Items[i].Name] = &s.services.Items[i]
	}
	for i := range s.jobs.Items {
		world.Jobs[s.jobs.Items[i].UID] = &s.jobs.Items[i]
	}
	t.view(&world)
	return world
}

// deleted gives what is stored of NodeSets that do not exist any more. A Deployment that names one of them and was
// not settled before may have brought anything to its nodes since.
func (t *Tracker) deleted(ctx context.Context, namespace string, there map[string]bool, s *scene) ([]verdict.NodeSet, error) {
	records, err := t.store.Records(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var all []verdict.NodeSet
	for _, record := range records {
		if there[record.NodeSet.Name] {
			continue
		}
		stored, err := t.store.Load(ctx, record.NodeSet)
		if err != nil {
			return nil, err
		}
		saved, _, err := trackmap.Decode(stored.Objects, "")
		if errors.Is(err, trackmap.ErrAbsent) {
			continue // deleted since the list
		}
		if err != nil {
			return nil, fmt.Errorf("ConfigMap of the deleted NodeSet %s: %w", record.NodeSet.Name, err)
		}
		saved.Book.Enrol(nil, fleet.Unknown)
		one := verdict.NodeSet{Name: record.NodeSet.Name, Book: saved.Book, Deleted: true}
		settled := map[string]bool{}
		for _, entry := range saved.Settled {
			settled[uidOf(entry)] = true
		}
		for i := range s.deployments.Items {
			deployment := &s.deployments.Items[i]
			if slices.Contains(deployment.Spec.NodeSets, one.Name) && !settled[string(deployment.UID)] && !saved.Book.IsGivenUp(string(deployment.UID)) {
				one.Unsettled = append(one.Unsettled, deployment.Name)
			}
		}
		all = append(all, one)
	}
	return all, nil
}
