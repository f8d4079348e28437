package executor

import (
	"context"
	"flag"
	"testing"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/fingerprint"
	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane/testplane"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("2000"); err != nil {
			panic(err)
		}
	}
	testplane.Main(m)
}

// bed is a namespace with an executor in it that has the rights of Rules and no others.
type bed struct {
	*Executor
	t     *testing.T
	admin client.WithWatch
	// as is the executor's client.
	as client.WithWatch
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, admin: testplane.Client(t)}
	namespace := testplane.Namespace(t)
	const user = "openstack-operator"
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	b.must(b.admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: Rules()}))
	b.must(b.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	_, config, err := testplane.Plane(t).Kubeconfig(user)
	b.must(err)
	b.as, err = client.NewWithWatch(config, client.Options{Scheme: b.admin.Scheme()})
	b.must(err)
	b.Executor = New(Options{Client: b.as, Namespace: namespace, Log: t.Logf})
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.options.Namespace, Name: name}
}

func (b *bed) create(objects ...client.Object) {
	b.t.Helper()
	for _, object := range objects {
		b.must(b.admin.Create(context.Background(), object))
	}
}

// secret writes a Secret, whether or not it exists, and gives the version it has then.
func (b *bed) secret(name string, data map[string]string) string {
	b.t.Helper()
	secret := &corev1.Secret{ObjectMeta: b.meta(name), Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	if err := b.admin.Update(b.t.Context(), secret.DeepCopy()); err != nil {
		b.create(secret.DeepCopy())
	}
	return string(fingerprint.Of(secret.Data, string(corev1.SecretTypeOpaque)))
}

func secretSource(name string, optional bool) dataplanev1.DataSource {
	return dataplanev1.DataSource{SecretRef: &dataplanev1.SourceReference{Name: name, Optional: &optional}}
}

func (b *bed) service(name string, change func(*dataplanev1.OpenStackDataPlaneServiceSpec)) {
	b.t.Helper()
	service := &dataplanev1.OpenStackDataPlaneService{ObjectMeta: b.meta(name)}
	service.Spec.Playbook = "osp.edpm." + name
	if change != nil {
		change(&service.Spec)
	}
	b.create(service)
}

// nova is the Secret that Service nova delivers.
const nova = "nova-cell1-compute-config"

func (b *bed) novaService() {
	b.t.Helper()
	b.service("nova", func(spec *dataplanev1.OpenStackDataPlaneServiceSpec) {
		spec.DataSources = []dataplanev1.DataSource{secretSource(nova, false), secretSource("nova-extra", true)}
	})
}

// user gives nova's Secret with the credential of a user.
func (b *bed) user(name string) string {
	b.t.Helper()
	return b.secret(nova, map[string]string{"01-nova.conf": "transport_url=rabbit://" + name + ":pw@rabbitmq:5671/"})
}

func (b *bed) nodeSet(name string, nodes, services []string) {
	b.t.Helper()
	nodeSet := &dataplanev1.OpenStackDataPlaneNodeSet{ObjectMeta: b.meta(name)}
	nodeSet.Spec = dataplanev1.OpenStackDataPlaneNodeSetSpec{
		PreProvisioned: true, Services: services, Nodes: map[string]dataplanev1.NodeSection{},
		NodeTemplate: dataplanev1.NodeTemplate{AnsibleSSHPrivateKeySecret: "ssh"},
	}
	for _, node := range nodes {
		nodeSet.Spec.Nodes[node] = dataplanev1.NodeSection{HostName: node}
	}
	b.create(nodeSet)
	b.must(b.SyncNodeSet(b.t.Context(), name))
}

func (b *bed) deployment(name string, change func(*dataplanev1.OpenStackDataPlaneDeploymentSpec), nodeSets ...string) {
	b.t.Helper()
	deployment := &dataplanev1.OpenStackDataPlaneDeployment{ObjectMeta: b.meta(name)}
	deployment.Spec.NodeSets = nodeSets
	if change != nil {
		change(&deployment.Spec)
	}
	b.create(deployment)
}

// read gives an object as it is in the cluster.
func read[T any, P interface {
	*T
	client.Object
}](b *bed, name string) P {
	b.t.Helper()
	object := P(new(T))
	b.must(b.admin.Get(b.t.Context(), client.ObjectKey{Namespace: b.options.Namespace, Name: name}, object))
	return object
}

func (b *bed) job(name string) *batchv1.Job { b.t.Helper(); return read[batchv1.Job](b, name) }

// pods gives a Job's pods, oldest first.
func (b *bed) pods(job string) []corev1.Pod {
	b.t.Helper()
	var list corev1.PodList
	b.must(b.admin.List(b.t.Context(), &list, client.InNamespace(b.options.Namespace), client.MatchingLabels{"batch.kubernetes.io/job-name": job}))
	return list.Items
}

// generic gives an object as it is in the cluster, with the fields that our types do not know.
func (b *bed) generic(object client.Object) map[string]any {
	b.t.Helper()
	kind, err := b.admin.GroupVersionKindFor(object)
	b.must(err)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	b.must(b.admin.Get(b.t.Context(), client.ObjectKeyFromObject(object), u))
	return u.Object
}
