package scenario

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/lab/executor"
	"github.com/rotation-operator/rotation-operator/internal/lab/testbed"
)

// Result is what came of one expectation.
type Result struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Step counts the steps of the file from 1.
	Step     int     `json:"step"`
	Expected Picture `json:"expected"`
	// Seen is what the cluster showed last, absent where the step was not reached.
	Seen *Picture `json:"seen,omitempty"`
	OK   bool     `json:"ok"`
	// Why says, where it does not hold, what is not as expected.
	Why []string `json:"why,omitempty"`
}

// expectation is a step that has a result.
type expectation interface {
	// wanted is what the step wants to see.
	wanted() Picture
	// judge looks, and says in the result what was seen and whether that is what is wanted.
	judge(ctx context.Context, p *player, result *Result) error
}

// player plays one file on a testbed.
type player struct {
	file    *File
	bed     *testbed.Testbed
	aliases aliases
	told    func(Step, *Result)
}

// Play plays a file on a testbed of its own, whose operator is down, and gives a result for each of its expectations.
// Told is called after every step, with the result of an expectation. An error is about a step that could not be
// taken; the expectations after it do not hold.
func Play(ctx context.Context, file *File, bed *testbed.Testbed, told func(Step, *Result)) ([]Result, error) {
	p := &player{file: file, bed: bed, aliases: aliases{}, told: told}
	return p.play(ctx)
}

func (p *player) play(ctx context.Context) ([]Result, error) {
	var results []Result
	broken := p.declare(ctx)
	for _, step := range p.file.Steps {
		expect, isExpectation := step.Action.(expectation)
		if !isExpectation {
			if broken == nil {
				if broken = p.take(ctx, step.Action); broken != nil {
					broken = fmt.Errorf("line %d: %s: %w", step.At.Line, step.Action, broken)
				} else {
					p.told(step, nil)
				}
			}
			continue
		}
		result := Result{File: p.file.Path, Line: step.At.Line, Step: step.Number, Expected: expect.wanted()}
		if broken == nil {
			broken = expect.judge(ctx, p, &result)
		}
		if broken != nil {
			result.OK, result.Why = false, []string{"a step before it failed: " + broken.Error()}
		}
		p.told(step, &result)
		results = append(results, result)
	}
	return results, broken
}

// declare creates what is there before the first step. The operator is up from the start and has taken it in, unless
// the first step stops it.
func (p *player) declare(ctx context.Context) error {
	isDown := false
	if len(p.file.Steps) > 0 {
		first, ok := p.file.Steps[0].Action.(Operator)
		isDown = ok && first.Verb.Text == "stop"
	}
	if !isDown {
		if err := p.bed.StartOperator(ctx); err != nil {
			return err
		}
	}
	for _, secret := range p.file.Secrets {
		if err := p.set(ctx, secret); err != nil {
			return err
		}
	}
	for _, service := range p.file.Services {
		if err := p.bed.CreateService(ctx, service.Name.Text, texts(service.Secrets), service.Type, service.Global); err != nil {
			return err
		}
	}
	for _, nodeSet := range p.file.NodeSets {
		if err := p.bed.CreateNodeSet(ctx, nodeSet.Name.Text, texts(nodeSet.Nodes), texts(nodeSet.Services)); err != nil {
			return err
		}
	}
	if err := p.declareCredentials(ctx); err != nil {
		return err
	}
	return p.bed.CatchUp(ctx)
}

func (p *player) set(ctx context.Context, v Version) error {
	version, err := p.bed.SetSecret(ctx, v.Secret.Text, v.Data)
	if err == nil {
		p.aliases.add(v.Secret.Text, v.As.Text, version)
	}
	return err
}

func (p *player) take(ctx context.Context, action Action) error {
	switch action := action.(type) {
	case Deploy:
		return p.bed.Deploy(ctx, action.Deployment.resolve(), action.outcomes())
	case Start:
		return p.bed.Start(ctx, action.Deployment.resolve())
	case Finish:
		return p.bed.Finish(ctx, action.Name.Text, outcome(action.Outcome.Text, action.Hosts))
	case Rotate:
		return p.set(ctx, action.Version)
	case Node:
		return p.bed.ChangeNodes(ctx, action.NodeSet.Text, action.Add.Text, action.Remove.Text)
	case Delete:
		return p.bed.Delete(ctx, kindOfObject(action.Kind.Text), action.Name.Text)
	case Attest:
		return p.bed.Attest(ctx, action.NodeSet.Text, texts(action.Nodes))
	case Override:
		return p.bed.Override(ctx, p.file.Guard.Text, action.Identity.Text)
	case Operator:
		return p.operate(ctx, action.Verb.Text)
	}
	return fmt.Errorf("%T is no step", action)
}

func (p *player) operate(ctx context.Context, verb string) error {
	switch verb {
	case "start":
		return p.bed.StartOperator(ctx)
	case "stop":
		return p.bed.StopOperator(ctx)
	case "restart":
		return p.bed.RestartOperator(ctx)
	}
	p.bed.KillOperator()
	return nil
}

func (e Expect) judge(ctx context.Context, p *player, result *Result) error {
	state, left, err := p.bed.Await(ctx, e.NodeSet.Text, func(s testbed.State) []string { return p.aliases.differences(e, s) })
	if err != nil {
		return fmt.Errorf("line %d: %w", result.Line, err)
	}
	seen := p.aliases.picture(e.NodeSet.Text, state)
	result.Seen, result.OK, result.Why = &seen, len(left) == 0, left
	return nil
}

func (d Deployment) resolve() testbed.Deployment {
	return testbed.Deployment{
		Name: d.Name.Text, NodeSets: texts(d.NodeSets), Limit: d.Limit, Tags: d.Tags, SkipTags: d.SkipTags, Services: texts(d.Services),
	}
}

// outcomes are those of the attempts. What is said of single hosts is about the last one.
func (d Deploy) outcomes() []executor.Outcome {
	if len(d.Attempts) == 0 {
		return []executor.Outcome{outcome(succeeded, d.Hosts)}
	}
	outcomes := make([]executor.Outcome, len(d.Attempts))
	for i, attempt := range d.Attempts {
		outcomes[i] = outcome(attempt.Text, nil)
	}
	outcomes[len(outcomes)-1].Hosts = outcome("", d.Hosts).Hosts
	return outcomes
}

func outcome(word string, hosts []HostOutcome) executor.Outcome {
	o := executor.Outcome{Succeeded: word == succeeded, Hosts: map[string]executor.HostOutcome{}}
	for _, host := range hosts {
		o.Hosts[host.Host.Text] = executor.HostOutcome(host.Outcome.Text)
	}
	return o
}

func kindOfObject(kind string) schema.GroupVersionKind {
	switch kind {
	case "Secret", "ConfigMap":
		return corev1.SchemeGroupVersion.WithKind(kind)
	case "Job":
		return batchv1.SchemeGroupVersion.WithKind(kind)
	}
	return dataplanev1.GroupVersion.WithKind(kind)
}

func texts(words []Word) []string {
	var all []string
	for _, word := range words {
		all = append(all, word.Text)
	}
	return all
}
