// Package controlplane runs a real kube-apiserver and etcd on loopback, with TLS and RBAC. Nothing else of Kubernetes
// runs: no controller collects garbage, ends namespaces or starts pods.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rotation-operator/rotation-operator/internal/lab/process"
)

// Options say how to start.
type Options struct {
	// Binaries is the directory with kube-apiserver and etcd; empty looks where hack/controlplane/build.sh puts them.
	Binaries string
	// Port is where the API server listens; 0 picks a free one.
	Port int
	// Emulate is the older version of Kubernetes, such as "1.34", that the API server serves as; empty is its own.
	Emulate string
}

// startTimeout bounds how long the API server may take until it is ready.
const startTimeout = 90 * time.Second

// ControlPlane is a running API server with its etcd.
type ControlPlane struct {
	dir        string
	url        string
	pki        *pki
	etcd, api  *process.Process
	admin      *rest.Config
	binaryPath string
}

// Start brings a control plane up and waits until it is ready. Whoever starts it has to Stop it.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	binaries, err := findBinaries(options.Binaries)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rotation-controlplane-")
	if err != nil {
		return nil, fmt.Errorf("no directory for the control plane: %w", err)
	}
	c := &ControlPlane{dir: dir, binaryPath: binaries}
	if err := c.start(ctx, options); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, options Options) error {
	var err error
	if c.pki, err = newPKI(c.dir); err != nil {
		return err
	}
	ports, err := freePorts(3, options.Port)
	if err != nil {
		return err
	}
	peer, client, api := ports[2], ports[1], ports[0]
	etcdURL := fmt.Sprintf("http://127.0.0.1:%d", client)
	c.url = fmt.Sprintf("https://127.0.0.1:%d", api)
	if c.etcd, err = process.Start(c.log("etcd"), filepath.Join(c.binaryPath, "etcd"),
		"--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", peer),
		"--initial-advertise-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", peer),
		"--initial-cluster", fmt.Sprintf("default=http://127.0.0.1:%d", peer)); err != nil {
		return err
	}
	arguments := []string{"--etcd-servers", etcdURL, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--secure-port", strconv.Itoa(api), "--authorization-mode", "RBAC", "--anonymous-auth=false",
		"--tls-cert-file", c.pki.path("apiserver.crt"), "--tls-private-key-file", c.pki.path("apiserver.key"),
		"--client-ca-file", c.pki.path("ca.crt"),
		"--service-account-issuer", c.url, "--service-account-key-file", c.pki.path("accounts.pub"),
		"--service-account-signing-key-file", c.pki.path("accounts.key"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--watch-cache-sizes", "pods#1000,secrets#1000",
		"--endpoint-reconciler-type", "none", "--disable-admission-plugins", "ServiceAccount"}
	if options.Emulate != "" {
		arguments = append(arguments, "--emulated-version", options.Emulate)
	}
	if c.api, err = process.Start(c.log("kube-apiserver"), filepath.Join(c.binaryPath, "kube-apiserver"), arguments...); err != nil {
		return err
	}
	if c.admin, err = c.config("admin", "system:masters"); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// waitReady asks until the API server says that it is ready. A process that dies ends the wait with its last words.
func (c *ControlPlane) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return fmt.Errorf("no client for the API server: %w", err)
	}
	const pause = 50 * time.Millisecond
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("asking the API server: %w", err)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close() // only the status counts
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready after %s: %w\n%s", startTimeout, ctx.Err(), c.lastWords("kube-apiserver"))
		case <-c.etcd.Done():
			return fmt.Errorf("etcd has ended: %s", c.lastWords("etcd"))
		case <-c.api.Done():
			return fmt.Errorf("kube-apiserver has ended: %s", c.lastWords("kube-apiserver"))
		case <-time.After(pause):
		}
	}
}

// log is where a program's output goes.
func (c *ControlPlane) log(program string) string { return filepath.Join(c.dir, program+".log") }

// lastWords are the last lines of a program's output.
func (c *ControlPlane) lastWords(program string) string {
	const lines = 8
	return process.LastWords(c.log(program), lines)
}

// Done closes when the API server has ended, by itself or by Stop.
func (c *ControlPlane) Done() <-chan struct{} { return c.api.Done() }

// Admin is a configuration with all rights.
func (c *ControlPlane) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// Binaries is the directory of the control plane's programs, kubectl among them.
func (c *ControlPlane) Binaries() string { return c.binaryPath }

// Kubeconfig makes a kubeconfig file for a user with a client certificate of its own, and gives its path and content.
// The user has the rights that somebody binds to it or its groups, and none before that.
func (c *ControlPlane) Kubeconfig(user string, groups ...string) (string, *rest.Config, error) {
	config, err := c.config(user, groups...)
	if err != nil {
		return "", nil, err
	}
	const name = "lab"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	file.CurrentContext = name
	path := filepath.Join(c.dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return "", nil, fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return path, config, nil
}

func (c *ControlPlane) config(user string, groups ...string) (*rest.Config, error) {
	certificate, key, err := c.pki.client(user, groups)
	if err != nil {
		return nil, err
	}
	const unlimited = -1
	return &rest.Config{Host: c.url, QPS: unlimited, TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.caPEM, CertData: certificate, KeyData: key}}, nil
}

// Stop ends both processes and removes everything that was written.
func (c *ControlPlane) Stop() error {
	const patience = 5 * time.Second
	for _, p := range []*process.Process{c.api, c.etcd} {
		if p != nil {
			p.Stop(patience)
		}
	}
	return os.RemoveAll(c.dir)
}

// findBinaries looks for the programs, and says how to get them where they are missing.
func findBinaries(dir string) (string, error) {
	if dir == "" {
		cache := os.Getenv("ROTATION_CONTROLPLANE")
		if cache == "" {
			return newestBuild()
		}
		dir = cache
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%s is not in %s; build it with `make controlplane`", name, dir)
		}
	}
	return dir, nil
}

// newestBuild is the directory that hack/controlplane/build.sh made last.
func newestBuild() (string, error) {
	root := os.Getenv("ROTATION_CACHE")
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory: %w", err)
		}
		root = filepath.Join(cache, "rotation-operator")
	}
	found, err := filepath.Glob(filepath.Join(root, "controlplane", "*", "kubectl"))
	if err != nil || len(found) == 0 {
		return "", errors.New("there is no control plane to run; build it with `make controlplane`")
	}
	newest, latest := "", time.Time{}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(latest) {
			newest, latest = filepath.Dir(path), info.ModTime()
		}
	}
	return newest, nil
}

// freePorts picks ports that nobody listens on; the first one is the given one, if any.
func freePorts(n, first int) ([]int, error) {
	ports := make([]int, 0, n)
	for len(ports) < n {
		want := 0
		if len(ports) == 0 {
			want = first
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", want))
		if err != nil {
			return nil, fmt.Errorf("port %d of 127.0.0.1 cannot be used: %w", want, err)
		}
		defer listener.Close()
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("unexpected address %s", listener.Addr())
		}
		ports = append(ports, address.Port)
	}
	return ports, nil
}

// PIDs are the process IDs of etcd and the API server.
func (c *ControlPlane) PIDs() []int {
	return []int{c.etcd.PID(), c.api.PID()}
}
