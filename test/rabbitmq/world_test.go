package rabbitmq

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

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
	answers := map[string]bool{}
	for _, node := range slices.Sorted(maps.Keys(w.agents)) {
		a := w.agents[node]
		for what, url := range map[string]string{"the service runs with": a.runs, "the file holds": a.file} {
			if url == "" {
				continue
			}
			accepted, known := answers[url]
			if !known {
				var err error
				if accepted, err = broker.LoginURL(ctx, url); err != nil {
					return err
				}
				answers[url] = accepted
			}
			if !accepted {
				w.told.add("%s is LOCKED OUT: %s %s", node, what, url)
				w.locked = append(w.locked, fmt.Sprintf("%s cannot log in, %s %s", node, what, url))
			}
		}
	}
	return nil
}
