// Package guard keeps a CredentialHold for every object that a CredentialGuard guards, and lets an object that somebody
// deletes go once no node may run its credential any more.
package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/controller/tracking"
	"github.com/rotation-operator/rotation-operator/internal/identity"
	"github.com/rotation-operator/rotation-operator/internal/verdict"
)

const (
	// lookBehind is how often, and triesBehind how many times, evidence is asked for again while watches catch up.
	lookBehind  = 20 * time.Millisecond
	triesBehind = 50
	// lookForKind is how soon it is looked again for a kind that the API server does not serve.
	lookForKind = 30 * time.Second
	// lookAgain is how soon it is looked again after a decision could not be taken to its end.
	lookAgain = 20 * time.Millisecond
)

// Options set a Controller up.
type Options struct {
	// Client reads guards, holds and guarded objects from the manager's cache, and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Tracker has the evidence.
	Tracker *tracking.Tracker
	// Events takes what changes.
	Events events.EventRecorder
	// Mapper tells which kinds are served; Follow has the cache hold one and tell of its changes.
	Mapper meta.RESTMapper
	Follow func(schema.GroupVersionKind) error
}

// Controller reconciles namespaces: all guards of one share its evidence.
type Controller struct {
	options Options
	// changed asks for a namespace to be looked at.
	changed func(namespace string)

	mutex sync.Mutex
	// covers tells, for a namespace with guards, which Secrets they are about.
	covers map[string]func(secret string) bool
	// followed are the kinds that the cache holds.
	followed map[schema.GroupVersionKind]bool
}

// guarded is one guard ready for use.
type guarded struct {
	*rotationv1.CredentialGuard
	kind      schema.GroupVersionKind
	extractor *identity.Extractor
	// invalid says why it cannot be used.
	invalid error
}

// Judged is told by the tracker of what may change an answer: in which namespace, and which Secret was written, or
// "" for anything else.
func (c *Controller) Judged(namespace, secret string) {
	c.mutex.Lock()
	covers, changed := c.covers[namespace], c.changed
	c.mutex.Unlock()
	if changed != nil && (secret == "" || covers != nil && covers(secret)) {
		changed(namespace)
	}
}

// Reconcile brings the holds of one namespace up to date and lets go what may go. The request names a namespace.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := request.Name
	var list rotationv1.CredentialGuardList
	if err := c.options.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing guards: %w", err)
	}
	var guards []guarded
	var leaving []rotationv1.CredentialGuard
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			leaving = append(leaving, list.Items[i])
			continue
		}
		guards = append(guards, prepare(&list.Items[i]))
	}
	c.ask(namespace, guards)
	result, err := c.hold(ctx, namespace, guards)
	for i := range leaving {
		err = errors.Join(err, c.release(ctx, &leaving[i], guards))
	}
	if len(list.Items) == 0 {
		err = errors.Join(err, c.options.Tracker.ForgetDeleted(ctx, namespace))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: lookAgain}, nil // the cache is behind, or somebody else wrote
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

func prepare(declared *rotationv1.CredentialGuard) guarded {
	g := guarded{CredentialGuard: declared}
	version, err := schema.ParseGroupVersion(declared.Spec.Credential.APIVersion)
	g.kind = version.WithKind(declared.Spec.Credential.Kind)
	extractor, compiled := identity.Compile(declared.Spec)
	g.extractor, g.invalid = extractor, errors.Join(err, compiled)
	return g
}

// ask has every Secret that is read from now on asked the guards' questions.
func (c *Controller) ask(namespace string, guards []guarded) {
	var extractors []*identity.Extractor
	for _, g := range guards {
		if g.invalid == nil {
			extractors = append(extractors, g.extractor)
		}
	}
	c.options.Tracker.SetIdentify(namespace, func(secret string, data map[string][]byte) map[string][]string {
		found := map[string][]string{}
		for _, extractor := range extractors {
			if !extractor.Covers(secret) {
				continue
			}
			if identities, err := extractor.Identities(secret, data); err == nil {
				found[extractor.ID()] = identities
			}
		}
		return found
	})
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.covers, namespace)
	if len(guards) > 0 {
		c.covers[namespace] = func(secret string) bool {
			return slices.ContainsFunc(extractors, func(e *identity.Extractor) bool { return e.Covers(secret) })
		}
	}
}

// subject is one guarded object under one guard.
type subject struct {
	guard  guarded
	object *unstructured.Unstructured
	// stored is the hold as it was read, hold as it is to become.
	stored, hold *rotationv1.CredentialHold
	// noIdentity says why the object shows none.
	noIdentity error
	answer     verdict.Deletion
}

// hold keeps the holds of the guards.
func (c *Controller) hold(ctx context.Context, namespace string, guards []guarded) (reconcile.Result, error) {
	result := reconcile.Result{}
	var subjects []*subject
	kept := map[string]bool{}
	for _, g := range guards {
		served, err := c.follow(g.kind)
		if err != nil {
			return result, err
		}
		if !served {
			result.RequeueAfter = lookForKind
		}
		mine, err := c.subjectsOf(ctx, g, served)
		if err != nil {
			return result, err
		}
		for _, s := range mine {
			kept[s.hold.Name] = true
		}
		subjects = append(subjects, mine...)
	}
	if err := c.dropHolds(ctx, namespace, kept); err != nil || len(subjects) == 0 {
		return result, err
	}
	words, err := c.words(ctx, namespace)
	if err != nil {
		return result, err
	}
	evidence, unavailable := c.evidence(ctx, namespace)
	now := time.Now()
	court := court{all: subjects, evidence: evidence, unavailable: unavailable, said: words, margin: c.options.Tracker.Margin(), now: now}
	for _, s := range subjects {
		s.answer = court.answer(s)
		if err := c.tell(ctx, s, words, evidence.Reads, metav1.NewTime(now.Truncate(time.Second))); err != nil {
			return result, err
		}
		if again := s.answer.LookAgain.Sub(now); !s.answer.LookAgain.IsZero() && again > 0 {
			result.RequeueAfter = sooner(result.RequeueAfter, again+time.Second)
		}
	}
	if unavailable != nil && !errors.Is(unavailable, tracking.ErrBehind) {
		return result, unavailable
	}
	if unavailable != nil {
		result.RequeueAfter = sooner(result.RequeueAfter, lookAgain)
	}
	again, err := c.letGo(ctx, namespace, subjects)
	if again {
		result.RequeueAfter = sooner(result.RequeueAfter, lookAgain)
	}
	return result, err
}

// sooner is the shorter of two waits of which zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// evidence waits a little for watches that are behind.
func (c *Controller) evidence(ctx context.Context, namespace string) (tracking.Evidence, error) {
	c.mutex.Lock()
	covers := c.covers[namespace]
	c.mutex.Unlock()
	var evidence tracking.Evidence
	var err error
	for range triesBehind {
		evidence, err = c.options.Tracker.Evidence(ctx, namespace, covers)
		if !errors.Is(err, tracking.ErrBehind) {
			break
		}
		select {
		case <-ctx.Done():
			return evidence, ctx.Err()
		case <-time.After(lookBehind):
		}
	}
	return evidence, err
}

// words are what administrators say in a namespace.
type words struct {
	overrides []rotationv1.CredentialOverride
	gone      []verdict.Gone
}

func (c *Controller) words(ctx context.Context, namespace string) (words, error) {
	var overrides rotationv1.CredentialOverrideList
	var attestations rotationv1.NodeAttestationList
	for _, list := range []client.ObjectList{&overrides, &attestations} {
		if err := c.options.Live.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return words{}, fmt.Errorf("listing what administrators say: %w", err)
		}
	}
	said := words{overrides: overrides.Items}
	for _, a := range attestations.Items {
		for _, node := range a.Spec.Nodes {
			said.gone = append(said.gone, verdict.Gone{NodeSet: a.Spec.NodeSet, Node: node, Override: wordOf(a.Spec.Word, a.ObjectMeta)})
		}
	}
	return said, nil
}

func wordOf(word rotationv1.Word, meta metav1.ObjectMeta) verdict.Override {
	return verdict.Override{By: word.By, Reason: word.Reason, Given: meta.CreationTimestamp.Time, Until: word.Until.Time}
}

// override gives the override for an object that ends last, and its name.
func (w words) override(s *subject) (*verdict.Override, string) {
	var best *verdict.Override
	var name string
	for _, o := range w.overrides {
		if o.Spec.Kind != s.object.GetKind() || o.Spec.Name != s.object.GetName() || o.DeletionTimestamp != nil {
			continue
		}
		if word := wordOf(o.Spec.Word, o.ObjectMeta); best == nil || word.Until.After(best.Until) {
			best, name = &word, o.Name
		}
	}
	return best, name
}

// court has everything that an answer rests on.
type court struct {
	all      []*subject
	evidence tracking.Evidence
	// unavailable says why there is no evidence.
	unavailable error
	said        words
	margin      time.Duration
	now         time.Time
}

// answer is the verdict on one subject.
func (c court) answer(s *subject) verdict.Deletion {
	identities := s.hold.Status.Identities
	switch {
	case s.guard.invalid != nil:
		return unknown(ReasonGuardInvalid, fmt.Sprintf("CredentialGuard %s cannot be used: %v; correct it", s.guard.Name, s.guard.invalid))
	case s.noIdentity != nil:
		return unknown(ReasonNoIdentity, fmt.Sprintf("It is not known which credential %s %s is: %v", s.object.GetKind(), s.object.GetName(), s.noIdentity))
	case c.unavailable != nil:
		return unknown(verdict.ReasonEvidenceIncomplete, fmt.Sprintf("What the answer needs cannot be read: %v", c.unavailable))
	case len(identities) > maxIdentities:
		return unknown(verdict.ReasonEvidenceIncomplete, fmt.Sprintf("%s %s has had more than %d identities", s.object.GetKind(), s.object.GetName(), maxIdentities))
	}
	request := verdict.Request{
		Identity: s.hold.Status.Identity, Question: s.guard.extractor.ID(), Covers: s.guard.extractor.Covers,
		Also:  slices.DeleteFunc(slices.Clone(identities), func(i string) bool { return i == s.hold.Status.Identity }),
		Proof: s.guard.Spec.Strength == rotationv1.StrengthProved, NodeSets: c.evidence.NodeSets,
		Cluster: cluster(s.guard.extractor, c.evidence), Gone: c.said.gone, Margin: c.margin, Now: c.now,
	}
	request.Override, _ = c.said.override(s)
	if s.guard.Spec.Credential.Generations == rotationv1.GenerationsAll {
		var others []string
		for _, other := range c.all {
			if other.guard.Name == s.guard.Name && other.object.GetUID() != s.object.GetUID() {
				others = append(others, other.hold.Status.Identities...)
			}
		}
		request.Adopt(others)
	}
	return verdict.MayGo(request)
}

// cluster says what the covered Secrets carry now.
func cluster(extractor *identity.Extractor, evidence tracking.Evidence) []verdict.ClusterSecret {
	var secrets []verdict.ClusterSecret
	for _, name := range slices.Sorted(maps.Keys(evidence.Secrets)) {
		if !extractor.Covers(name) {
			continue
		}
		one := verdict.ClusterSecret{Name: name}
		if secret := evidence.Secrets[name]; secret == nil {
			one.Unread = evidence.Unread[name].Error()
		} else if identities, err := extractor.Identities(name, secret.Data); err != nil {
			one.NotFound = err.Error()
		} else {
			one.Identities = identities
		}
		secrets = append(secrets, one)
	}
	return secrets
}

// follow has the cache hold the kind; served is false while the API server does not know it.
func (c *Controller) follow(kind schema.GroupVersionKind) (served bool, err error) {
	if kind.Kind == "" || kind.Version == "" {
		return false, nil
	}
	if _, err := c.options.Mapper.RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("asking for %s: %w", kind.GroupKind(), err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.followed[kind] {
		return true, nil
	}
	if err := c.options.Follow(kind); err != nil {
		return false, fmt.Errorf("following %s: %w", kind.GroupKind(), err)
	}
	c.followed[kind] = true
	return true, nil
}

func (c *Controller) namespaceIsGoing(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace
	if err := c.options.Live.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return namespace.DeletionTimestamp != nil, nil
}
