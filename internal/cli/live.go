package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
	"github.com/rotation-operator/rotation-operator/internal/operator"
	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/store"
	"github.com/rotation-operator/rotation-operator/internal/trackmap"
)

// client is the API server with the user's rights.
func (t *tool) client() (client.Client, error) {
	config, err := t.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: %w", err)
	}
	config.QPS = -1 // the API server's own fairness decides
	scheme, err := operator.Scheme()
	if err != nil {
		return nil, err
	}
	log.SetLogger(logr.Discard()) // what goes wrong is in the errors
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: %w", err)
	}
	return c, nil
}

// discovered asks the API server what a short name stands for.
func (t *tool) discovered(word string) string {
	mapper, err := t.flags.ToRESTMapper()
	if err != nil {
		return ""
	}
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: word})
	if err != nil {
		return ""
	}
	return kind.Kind
}

// live reads the evidence from the API server. What is forbidden stands in the evidence as such.
func (t *tool) live(ctx context.Context, where scope) (report.Evidence, error) {
	evidence := report.Evidence{TypeMeta: metav1.TypeMeta{APIVersion: report.GroupVersion, Kind: "Evidence"},
		CollectedAt: t.now().UTC(), Program: operator.Version}
	c, err := t.client()
	if err != nil {
		return evidence, err
	}
	g := &gatherer{client: c}
	namespaces := []string{where.namespace}
	if where.namespace == "" {
		if namespaces, err = g.namespaces(ctx); err != nil {
			return evidence, err
		}
	}
	for _, name := range namespaces {
		namespace, err := g.namespace(ctx, name)
		if err != nil {
			return evidence, err
		}
		evidence.Namespaces = append(evidence.Namespaces, namespace)
	}
	if discovery, err := t.flags.ToDiscoveryClient(); err == nil {
		if version, err := discovery.ServerVersion(); err == nil {
			evidence.Server = version.GitVersion
		}
	}
	return evidence, nil
}

// gatherer reads one namespace after the other.
type gatherer struct {
	client client.Client
	// missing are the kinds that the API server does not serve.
	missing []string
}

// namespaces are those with NodeSets or guards.
func (g *gatherer) namespaces(ctx context.Context) ([]string, error) {
	var found []string
	for _, kind := range []schema.GroupVersionKind{
		dataplanev1.GroupVersion.WithKind("OpenStackDataPlaneNodeSetList"), rotationv1.GroupVersion.WithKind("CredentialGuardList"),
	} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(kind)
		err := g.client.List(ctx, &list)
		switch {
		case meta.IsNoMatchError(err):
			g.missing = append(g.missing, strings.TrimSuffix(kind.Kind, "List"))
		case apierrors.IsForbidden(err):
			return nil, failure{Failed, fmt.Sprintf("you may not list %ss in all namespaces: name one with -n, or ask for that right", strings.TrimSuffix(kind.Kind, "List"))}
		case err != nil:
			return nil, fmt.Errorf("listing %ss: %w", strings.TrimSuffix(kind.Kind, "List"), err)
		}
		for i := range list.Items {
			found = append(found, list.Items[i].Namespace)
		}
	}
	if len(g.missing) > 0 {
		return nil, notInstalled(g.missing)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// keepMetas strips what anybody may have put into annotations of our own objects.
func keepMetas(n *report.Namespace) {
	for i := range n.Guards {
		report.KeepMeta(&n.Guards[i].ObjectMeta)
	}
	for i := range n.Holds {
		report.KeepMeta(&n.Holds[i].ObjectMeta)
	}
	for i := range n.Overrides {
		report.KeepMeta(&n.Overrides[i].ObjectMeta)
	}
	for i := range n.Attestations {
		report.KeepMeta(&n.Attestations[i].ObjectMeta)
	}
}

// namespace reads one. Records come before the Secrets and Deployments: what is newer than they are is seen, not missed.
func (g *gatherer) namespace(ctx context.Context, name string) (report.Namespace, error) {
	n := report.Namespace{Name: name}
	var nodeSets dataplanev1.OpenStackDataPlaneNodeSetList
	var rollouts rotationv1.SecretRolloutList
	var guards rotationv1.CredentialGuardList
	var holds rotationv1.CredentialHoldList
	var overrides rotationv1.CredentialOverrideList
	var attestations rotationv1.NodeAttestationList
	var services dataplanev1.OpenStackDataPlaneServiceList
	var deployments dataplanev1.OpenStackDataPlaneDeploymentList
	for _, one := range []struct {
		list   client.ObjectList
		what   string
		needed bool
	}{
		{&nodeSets, "OpenStackDataPlaneNodeSets", true}, {&rollouts, "SecretRollouts", false}, {&guards, "CredentialGuards", true},
		{&holds, "CredentialHolds", true}, {&overrides, "CredentialOverrides", true}, {&attestations, "NodeAttestations", true},
	} {
		if err := g.list(ctx, &n, one.list, one.what, one.needed); err != nil {
			return n, err
		}
	}
	for i := range nodeSets.Items {
		tracked, err := g.tracked(ctx, &n, nodeSets.Items[i], rollouts)
		if err != nil {
			return n, err
		}
		n.NodeSets = append(n.NodeSets, tracked)
	}
	if err := g.list(ctx, &n, &services, "OpenStackDataPlaneServices", true); err != nil {
		return n, err
	}
	if err := g.list(ctx, &n, &deployments, "OpenStackDataPlaneDeployments", true); err != nil {
		return n, err
	}
	if err := g.secrets(ctx, &n); err != nil {
		return n, err
	}
	if len(g.missing) > 0 {
		return n, notInstalled(g.missing)
	}
	for i := range services.Items {
		n.Services = append(n.Services, report.KeepService(services.Items[i]))
	}
	for i := range deployments.Items {
		n.Deployments = append(n.Deployments, report.KeepDeployment(deployments.Items[i]))
	}
	n.Guards, n.Holds, n.Overrides, n.Attestations = guards.Items, holds.Items, overrides.Items, attestations.Items
	keepMetas(&n)
	return n, g.deleted(ctx, &n)
}

// list reads a list. What is not served or forbidden is no error yet.
func (g *gatherer) list(ctx context.Context, n *report.Namespace, list client.ObjectList, what string, needed bool) error {
	err := g.client.List(ctx, list, client.InNamespace(n.Name))
	switch {
	case err == nil:
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		g.missing = append(g.missing, strings.TrimSuffix(what, "s"))
	case apierrors.IsForbidden(err):
		n.Unread = append(n.Unread, report.Unread{What: what, Why: "you may not list them in namespace " + n.Name, Needed: needed,
			Fix: fmt.Sprintf("Ask for the right to list %s in namespace %s", strings.ToLower(what), n.Name)})
	default:
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}

// tracked reads what is stored of a NodeSet.
func (g *gatherer) tracked(ctx context.Context, n *report.Namespace, nodeSet dataplanev1.OpenStackDataPlaneNodeSet, rollouts rotationv1.SecretRolloutList) (report.Tracked, error) {
	tracked := report.Tracked{NodeSet: report.KeepNodeSet(nodeSet)}
	for i := range rollouts.Items {
		if rollouts.Items[i].Name == nodeSet.Name {
			tracked.Rollout = &rollouts.Items[i]
			report.KeepMeta(&tracked.Rollout.ObjectMeta)
		}
	}
	stored, err := g.record(ctx, nodeSet)
	if apierrors.IsForbidden(err) {
		n.Unread = append(n.Unread, report.Unread{What: "ConfigMap " + store.ConfigMapName(nodeSet.Name), Needed: true,
			Why: "you may not get ConfigMaps in namespace " + n.Name,
			Fix: fmt.Sprintf("Ask for the right to get configmaps in namespace %s", n.Name)})
		return tracked, nil
	}
	tracked.Record = stored
	return tracked, err
}

// record reads the ConfigMaps of a NodeSet. The operator may write meanwhile: what does not fit together is read again.
func (g *gatherer) record(ctx context.Context, nodeSet dataplanev1.OpenStackDataPlaneNodeSet) (trackmap.Objects, error) {
	before := ""
	for {
		stored, err := store.Store{Reader: g.client}.Load(ctx, client.ObjectKeyFromObject(&nodeSet))
		if err != nil {
			return nil, err
		}
		_, _, err = trackmap.Decode(stored.Objects, string(nodeSet.UID))
		if !errors.Is(err, trackmap.ErrCorrupt) || stored.Version() == before {
			return stored.Objects, nil
		}
		before = stored.Version()
	}
}

// secrets reads the metadata of Secrets, never their content.
func (g *gatherer) secrets(ctx context.Context, n *report.Namespace) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	unread := len(n.Unread)
	if err := g.list(ctx, n, &list, "Secrets", false); err != nil {
		return err
	}
	if len(n.Unread) > unread {
		n.Unread[unread].Why += ", so a Secret that the operator has not read since it was written is not noticed"
		return nil
	}
	n.Secrets = map[string]report.Sight{}
	for i := range list.Items {
		n.Secrets[list.Items[i].Name] = report.Sight{UID: string(list.Items[i].UID), ResourceVersion: list.Items[i].ResourceVersion}
	}
	return nil
}

// deletedNodeSet begins what is said of a NodeSet that is gone while its nodes run on.
const deletedNodeSet = "The deleted NodeSet "

// deleted notes the NodeSets that are gone and of which a record is left. Only the operator judges those.
func (g *gatherer) deleted(ctx context.Context, n *report.Namespace) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMapList"})
	err := g.client.List(ctx, &list, client.InNamespace(n.Name), client.HasLabels{store.LabelNodeSet})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing ConfigMaps: %w", err)
	}
	for i := range list.Items {
		name := store.NodeSetOf(list.Items[i].Name)
		there := slices.ContainsFunc(n.NodeSets, func(t report.Tracked) bool { return t.NodeSet.Name == name })
		if name != "" && !there && list.Items[i].Name == store.ConfigMapName(name) {
			n.Unread = append(n.Unread, report.Unread{What: deletedNodeSet + name, Why: "its nodes may run on; only the operator counts them, in its verdicts",
				Fix: "If its nodes are gone, say so with 'kubectl rotation attest'"})
		}
	}
	return nil
}

// notInstalled says what the API server does not serve, and how to install it.
func notInstalled(missing []string) error {
	var foreign, ours []string
	for _, kind := range missing {
		if strings.HasPrefix(kind, "OpenStackDataPlane") {
			foreign = append(foreign, kind)
		} else {
			ours = append(ours, kind)
		}
	}
	var text []string
	if len(foreign) > 0 {
		text = append(text, "the API server does not know "+names(foreign, 5)+": openstack-operator is not installed here, or this is the wrong cluster (see 'kubectl config current-context')")
	}
	if len(ours) > 0 {
		text = append(text, "the API server does not know "+names(ours, 5)+": the rotation operator is not installed here, or not wholly",
			"To install it: kubectl apply --server-side -f config/crd/rotation.openstack.org_KIND.yaml for each, then docs/operating.md")
	}
	return failure{Failed, strings.Join(text, "\n")}
}
