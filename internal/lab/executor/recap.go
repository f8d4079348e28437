package executor

import (
	"encoding/json"
	"slices"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

// recap is the summary that the image writes as the termination message of its container (write_runner_summary.py of
// edpm-ansible): compact JSON with sorted keys, which is the order of these fields.
type recap struct {
	FailedHostList      []string `json:"failedHostList"`
	FailedHosts         int      `json:"failedHosts"`
	FailurePercent      int      `json:"failurePercent"`
	TotalHosts          int      `json:"totalHosts"`
	UnreachableHostList []string `json:"unreachableHostList"`
	UnreachableHosts    int      `json:"unreachableHosts"`
}

// stats are Ansible's: the hosts that it did anything with, those with a failed task, and those it could not reach.
type stats struct {
	Processed []string `json:"processed"`
	Failures  []string `json:"failures"`
	Dark      []string `json:"dark"`
}

const percent = 100

// recap sums the stats up. The share of bad hosts is rounded half up.
func (s stats) recap() recap {
	failed, dark := sortedSet(s.Failures), sortedSet(s.Dark)
	total, bad := len(sortedSet(s.Processed)), len(sortedSet(slices.Concat(failed, dark)))
	r := recap{
		FailedHostList: failed, FailedHosts: len(failed),
		UnreachableHostList: dark, UnreachableHosts: len(dark), TotalHosts: total,
	}
	if total > 0 {
		r.FailurePercent = (bad*percent + total/2) / total
	}
	return r
}

func sortedSet(hosts []string) []string {
	sorted := slices.Sorted(slices.Values(hosts))
	if sorted == nil {
		return []string{} // never null
	}
	return slices.Compact(sorted)
}

// end is how a container ended.
type end struct {
	exitCode int32
	// stats are nil where Ansible wrote none.
	stats *stats
}

// Exit codes of ansible-playbook.
const (
	exitOK     = 0
	exitError  = 1
	exitFailed = 2
	exitKilled = 143
)

// maxMessage is how much of a termination message a kubelet keeps: the last bytes of it.
const maxMessage = 4096

// message is the container's termination message, empty where Ansible wrote no stats.
func (e end) message() string {
	if e.stats == nil {
		return ""
	}
	text, err := json.Marshal(e.stats.recap())
	if err != nil {
		panic("executor: a recap can always be marshalled: " + err.Error())
	}
	return string(text[max(0, len(text)-maxMessage):])
}

// scripted gives the end of a run that does not take place. Hosts are those it is pointed at; where that is an error,
// Ansible stops before it touches anything, whatever was to happen.
func scripted(selection hostpattern.Selection, outcome Outcome) end {
	if selection.Err != "" {
		return end{exitCode: exitError}
	}
	hosts := selection.Surely
	if !selection.Decided {
		hosts = selection.Perhaps
	}
	s := stats{}
	for i, host := range hosts {
		switch outcome.of(host, i == 0) {
		case HostUnlisted:
			continue
		case HostFailed:
			s.Failures = append(s.Failures, host)
		case HostUnreachable:
			s.Dark = append(s.Dark, host)
		case HostOK:
		}
		s.Processed = append(s.Processed, host)
	}
	if outcome.Succeeded {
		return end{exitOK, &s}
	}
	return end{exitFailed, &s}
}

// of gives the outcome of one host of a run; first says that it is the run's first.
func (o Outcome) of(host string, first bool) HostOutcome {
	if named, ok := o.Hosts[host]; ok {
		return named
	}
	switch {
	case o.Succeeded:
		return HostOK
	case len(o.Hosts) == 0 && first:
		return HostFailed
	default:
		return HostUnlisted
	}
}

// parseRecap reads a termination message as openstack-operator does: without hosts it is none.
func parseRecap(message string) *dataplanev1.AnsibleExecutionSummary {
	var summary dataplanev1.AnsibleExecutionSummary
	if err := json.Unmarshal([]byte(message), &summary); err != nil || summary.TotalHosts == nil || *summary.TotalHosts == 0 {
		return nil
	}
	return &summary
}
