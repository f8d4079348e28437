package rabbitmq

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rotation-operator/rotation-operator/internal/lab/broker"
)

// agent is the service on one node.
type agent struct {
	// file is the transport URL on the node's disk, runs the one that the service was started with; both empty where it
	// was never configured.
	file, runs string
}

// world is what really is: the nodes' disks and processes. The API server and the operator know nothing of it.
type world struct {
	mutex  sync.Mutex
	agents map[string]*agent
	told   story
	// locked are agents that could not log in, as sentences.
	locked []string
}

// write is Ansible that puts the file there, and restarts the service only if it changed the file.
func (a *agent) write(url string, restarts bool) {
	changed := a.file != url
	a.file = url
	if changed && restarts {
		a.runs = url
	}
}

// change does something to nodes, and then has all agents log in.
func (w *world) change(ctx context.Context, change func() error) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := change(); err != nil {
		return err
	}
	answers, err := logins(ctx, w.urls())
	if err != nil {
		return err
	}
	for _, node := range slices.Sorted(maps.Keys(w.agents)) {
		a := w.agents[node]
		for what, url := range map[string]string{"the service runs with": a.runs, "the file holds": a.file} {
			if url != "" && !answers[url] {
				w.told.add("%s is LOCKED OUT: %s %s", node, what, url)
				w.locked = append(w.locked, fmt.Sprintf("%s cannot log in, %s %s", node, what, url))
			}
		}
	}
	return nil
}

// urls are all that any agent may log in with, each once.
func (w *world) urls() []string {
	urls := map[string]bool{}
	for _, a := range w.agents {
		urls[a.runs], urls[a.file] = true, true
	}
	delete(urls, "")
	return slices.Collect(maps.Keys(urls))
}

// logins tells with which of the URLs one can log in. They are tried at once: the broker takes seconds for a refusal.
func logins(ctx context.Context, urls []string) (map[string]bool, error) {
	accepted := make([]bool, len(urls))
	var group errgroup.Group
	for i, url := range urls {
		group.Go(func() (err error) {
			accepted[i], err = broker.LoginURL(ctx, url)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	answers := map[string]bool{}
	for i, url := range urls {
		answers[url] = accepted[i]
	}
	return answers, nil
}
