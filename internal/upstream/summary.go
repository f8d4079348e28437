package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// summary is the recap of an Ansible run that the image writes as the termination message of its container
// (write_runner_summary.py of edpm-ansible). It lists only the hosts that went wrong.
type summary struct {
	TotalHosts          *int     `json:"totalHosts"`
	FailedHosts         int      `json:"failedHosts"`
	UnreachableHosts    int      `json:"unreachableHosts"`
	FailedHostList      []string `json:"failedHostList"`
	UnreachableHostList []string `json:"unreachableHostList"`
}

// summaryOf reads the recap of this very pod. Other attempts' recaps say nothing of this one.
func summaryOf(pod *corev1.Pod) (summary, error) {
	var s summary
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated == nil || status.State.Terminated.Message == "" {
			continue
		}
		if err := json.Unmarshal([]byte(status.State.Terminated.Message), &s); err != nil {
			return s, fmt.Errorf("the pod's recap cannot be read: %w", err)
		}
		if s.TotalHosts == nil {
			return s, errors.New("the pod's recap counts no hosts")
		}
		if s.FailedHosts != len(s.FailedHostList) || s.UnreachableHosts != len(s.UnreachableHostList) {
			return s, errors.New("the pod's recap contradicts itself")
		}
		return s, nil
	}
	return s, errors.New("the pod left no recap")
}

// isBad tells whether the recap lists the host as failed or unreachable.
func (s summary) isBad(host string) bool {
	return slices.Contains(s.FailedHostList, host) || slices.Contains(s.UnreachableHostList, host)
}
