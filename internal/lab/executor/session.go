package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/config/proof"
)

// session is a Deployment that was started.
type session struct {
	deployment *dataplanev1.OpenStackDataPlaneDeployment
	nodeSets   []*dataplanev1.OpenStackDataPlaneNodeSet
	lanes      []*lane
	// jobHashes and summaries are by Job, as the Deployment's status has them.
	jobHashes map[string]string
	summaries map[string]dataplanev1.AnsibleExecutionSummary
}

// lane is one NodeSet's part of a Deployment: its services, one after the other.
type lane struct {
	progress
	nodeSet *dataplanev1.OpenStackDataPlaneNodeSet
	job     *batchv1.Job
	pod     *corev1.Pod
	// content is what the pod has mounted, once it is running.
	content container
	running bool
}

// open gives the session of a Deployment, a new one where there is none.
func (e *Executor) open(ctx context.Context, name string) (*session, error) {
	s, deployment, err := e.find(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case s == nil && isOver(deployment):
		return nil, fmt.Errorf("Deployment %s is over; create another one", name)
	case s != nil && !slices.ContainsFunc(s.lanes, func(l *lane) bool { return !l.running && !l.isDone() }):
		return nil, fmt.Errorf("Deployment %s is running already", name)
	case s != nil:
		return s, nil
	}
	s = &session{deployment: deployment, jobHashes: map[string]string{}, summaries: map[string]dataplanev1.AnsibleExecutionSummary{}}
	for _, nodeSet := range deployment.Spec.NodeSets {
		if err := e.SyncNodeSet(ctx, nodeSet); err != nil {
			return nil, fmt.Errorf("Deployment %s: %w", name, err)
		}
		var live dataplanev1.OpenStackDataPlaneNodeSet
		if err := e.get(ctx, nodeSet, &live); err != nil {
			return nil, fmt.Errorf("Deployment %s: %w", name, err)
		}
		if !hasStatus(live.Status.Conditions, dataplanev1.ConditionSetupReady, corev1.ConditionTrue) {
			return nil, fmt.Errorf("Deployment %s: NodeSet %s is not set up", name, nodeSet)
		}
		s.nodeSets = append(s.nodeSets, &live)
	}
	known, err := e.services(ctx, servicesOf(s.nodeSets, deployment.Spec.ServicesOverride))
	if err != nil {
		return nil, err
	}
	plan := planServices(s.nodeSets, deployment.Spec.ServicesOverride, known)
	for _, nodeSet := range s.nodeSets {
		s.lanes = append(s.lanes, &lane{nodeSet: nodeSet, progress: progress{nodeSet: nodeSet.Name, services: plan[nodeSet.Name]}})
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.running[deployment.UID] = s
	return s, nil
}

// find gives the Deployment and its session, nil where it was not started.
func (e *Executor) find(ctx context.Context, name string) (*session, *dataplanev1.OpenStackDataPlaneDeployment, error) {
	var deployment dataplanev1.OpenStackDataPlaneDeployment
	if err := e.get(ctx, name, &deployment); err != nil {
		return nil, nil, fmt.Errorf("Deployment %s: %w", name, err)
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.running[deployment.UID], &deployment, nil
}

// services gives those Services that exist, by name.
func (e *Executor) services(ctx context.Context, names []string) (map[string]*dataplanev1.OpenStackDataPlaneService, error) {
	known := map[string]*dataplanev1.OpenStackDataPlaneService{}
	for _, name := range names {
		var service dataplanev1.OpenStackDataPlaneService
		switch err := e.get(ctx, name, &service); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("Service %s: %w", name, err)
		}
		known[name] = &service
	}
	return known, nil
}

// begin starts the lane's next service. Where openstack-operator would say why not in a condition, the lane's problem
// does.
func (e *Executor) begin(ctx context.Context, s *session, l *lane) error {
	l.problem = nil
	if l.job == nil {
		w, err := e.work(ctx, s, l)
		if err != nil {
			l.problem = &problem{reason: dataplanev1.ReasonError, message: err.Error()}
			return fmt.Errorf("service %s of NodeSet %s cannot start: %w", l.services[l.done], l.progress.nodeSet, err)
		}
		if spec := w.service.Spec; e.options.Ansible && spec.Playbook == "" && spec.PlaybookContents != "" && proof.Proves(spec.PlaybookContents) == "" {
			return fmt.Errorf("Service %s brings its own playbook, which is for real nodes; the lab does not run it on this machine", w.service.Name)
		}
		if l.job, err = e.createJob(ctx, w); err != nil {
			return err
		}
		s.jobHashes[l.job.Name] = l.job.Annotations[hashAnnotation]
		l.started = true
	}
	return e.startPod(ctx, l)
}

// work reads what the Job of the lane's next service is made from.
func (e *Executor) work(ctx context.Context, s *session, l *lane) (work, error) {
	name := l.services[l.done]
	known, err := e.services(ctx, l.services)
	if err != nil {
		return work{}, err
	}
	service := known[name]
	if service == nil {
		return work{}, apierrors.NewNotFound(dataplanev1.GroupVersion.WithResource("openstackdataplaneservices").GroupResource(), name)
	}
	w := work{deployment: s.deployment, nodeSets: s.nodeSets, nodeSet: l.nodeSet, service: service}
	for _, from := range service.Spec.DataSources {
		object, err := e.source(ctx, from)
		if err != nil {
			return work{}, err
		}
		if object == nil {
			continue
		}
		_, secret := object.(*corev1.Secret)
		w.sources = append(w.sources, source{secret: secret, name: object.GetName(), keys: slices.Sorted(maps.Keys(dataOf(object)))})
	}
	authorities := []*dataplanev1.OpenStackDataPlaneService{service}
	if service.Spec.AddCertMounts {
		authorities = nil
		for _, other := range l.services {
			if known[other] == nil {
				return work{}, apierrors.NewNotFound(dataplanev1.GroupVersion.WithResource("openstackdataplaneservices").GroupResource(), other)
			}
			authorities = append(authorities, known[other])
		}
	}
	for _, authority := range authorities {
		if authority.Spec.CACerts == "" {
			continue
		}
		if err := e.get(ctx, authority.Spec.CACerts, &corev1.Secret{}); err != nil {
			return work{}, err
		}
		w.authorities = append(w.authorities, authority)
	}
	return w, nil
}

// createJob makes the Job, or finds the one that an earlier attempt to start has made.
func (e *Executor) createJob(ctx context.Context, w work) (*batchv1.Job, error) {
	job, err := w.job()
	if err != nil {
		return nil, err
	}
	switch err := e.options.Client.Create(ctx, job, client.FieldOwner(asOperator)); {
	case apierrors.IsAlreadyExists(err):
		if err := e.get(ctx, job.Name, job); err != nil {
			return nil, fmt.Errorf("Job %s: %w", job.Name, err)
		}
		if !metav1.IsControlledBy(job, w.deployment) {
			return nil, fmt.Errorf("Job %s exists and belongs to something else than Deployment %s", job.Name, w.deployment.Name)
		}
	case err != nil:
		return nil, fmt.Errorf("Job %s: %w", job.Name, err)
	}
	return job, nil
}

// startPod makes the next pod of the lane's Job, binds it, mounts, and has it running. Where something is missing, the
// pod stays pending, and a later call goes on with it.
func (e *Executor) startPod(ctx context.Context, l *lane) error {
	c := e.options.Client
	if l.pod == nil {
		pod := podOf(l.job)
		if err := c.Create(ctx, pod, client.FieldOwner(asController)); err != nil {
			return fmt.Errorf("pod of Job %s: %w", l.job.Name, err)
		}
		l.pod = pod
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: workerNode}}
		err := errors.Join(
			patch(ctx, c.Status(), asController, l.job, func(job *batchv1.Job) { setActive(job, 0, metav1.Now()) }),
			c.SubResource("binding").Create(ctx, pod, binding, client.FieldOwner(asScheduler)),
			e.get(ctx, pod.Name, pod),
		)
		if err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	content, err := e.mounted(ctx, l.pod)
	if err != nil {
		return err
	}
	err = errors.Join(
		patch(ctx, c.Status(), asKubelet, l.pod, func(pod *corev1.Pod) { setRunning(pod, metav1.Now()) }),
		patch(ctx, c.Status(), asController, l.job, func(job *batchv1.Job) { setActive(job, 1, metav1.Now()) }),
	)
	if err != nil {
		return fmt.Errorf("pod %s: %w", l.pod.Name, err)
	}
	l.content, l.running = content, true
	e.options.Log("pod %s is running", l.pod.Name)
	return nil
}
