//go:build binaries

// Package controlplane pins, in a Go module of its own, the control plane that
// the lab and the tests run: kube-apiserver, etcd and kubectl.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
