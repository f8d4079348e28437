package controlplane_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rotation-operator/rotation-operator/internal/lab/controlplane"
)

func TestItStartsServesAndLeavesNothing(t *testing.T) {
	c, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	admin, _, err := c.Kubeconfig("someone", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(c.Binaries(), "kubectl"), "--kubeconfig", admin, "get", "namespaces", "-o", "name").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "namespace/default") {
		t.Errorf("kubectl get namespaces: %v\n%s", err, out)
	}
	_, nobody, err := c.Kubeconfig("nobody")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(nobody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.CoreV1().Secrets("default").List(context.Background(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights lists Secrets: %v", err)
	}
	pids := c.PIDs()
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if found, _ := filepath.Glob(admin); len(found) > 0 {
		t.Errorf("%s is still there", admin)
	}
}

func TestPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	c, err := controlplane.Start(context.Background(), controlplane.Options{Port: port})
	if err == nil {
		_ = c.Stop()
		t.Fatal("it started on a port in use")
	}
	if !strings.Contains(err.Error(), "cannot be used") {
		t.Errorf("unclear: %v", err)
	}
}

func TestMissingPrograms(t *testing.T) {
	_, err := controlplane.Start(context.Background(), controlplane.Options{Binaries: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("unclear: %v", err)
	}
}
