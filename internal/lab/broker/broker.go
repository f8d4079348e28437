// Package broker runs a real RabbitMQ of our own on loopback, to see who can log in.
package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rotation-operator/rotation-operator/internal/lab/process"
)

// Where Debian's package has its programs.
var (
	server     = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	portMapper = "/usr/bin/epmd"
)

// ErrMissing says that RabbitMQ is not installed.
var ErrMissing = errors.New("RabbitMQ is missing: run hack/install-rabbitmq.sh")

const (
	// startup is how long a broker may take to be ready, patience how long it may take to end.
	startup  = 2 * time.Minute
	patience = 30 * time.Second
	// answer is how long it may take to answer one question.
	answer = 30 * time.Second
	// lines are how many of a log's last lines an error shows.
	lines = 30
	admin = "broker-admin"
)

// Broker is a running RabbitMQ.
type Broker struct {
	dir, password string
	ports         ports
	mapper, node  *process.Process
}

// ports are where it listens: for AMQP, for the management API, and for other Erlang nodes.
type ports struct{ amqp, management, distribution, mapper int }

// Available answers with ErrMissing where RabbitMQ is not installed.
func Available() error {
	for _, program := range []string{server, portMapper} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	return nil
}

// Start runs a broker that keeps everything below dir, and waits until one can log in. Whoever starts it has to Stop it.
// A port that somebody took in the meantime is another try.
func Start(ctx context.Context, dir string) (*Broker, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	const tries = 3
	var problems []error
	for try := range tries {
		b, err := startOnce(ctx, filepath.Join(dir, fmt.Sprintf("broker-%d", try)))
		if err == nil {
			return b, nil
		}
		if problems = append(problems, err); ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("RabbitMQ does not start: %w", errors.Join(problems...))
}

func startOnce(ctx context.Context, dir string) (*Broker, error) {
	b := &Broker{dir: dir, password: secret()}
	var err error
	if b.ports, err = freePorts(); err != nil {
		return nil, err
	}
	if err := b.configure(); err != nil {
		return nil, err
	}
	environment := b.environment()
	// RabbitMQ would start a port mapper that outlives it; one that is there already it uses.
	if b.mapper, err = process.Start(b.path("epmd.log"), "/usr/bin/env", append(environment, portMapper)...); err != nil {
		return nil, err
	}
	// With RABBITMQ_ALLOW_INPUT the script becomes Erlang instead of watching over it, so that it dies with us.
	if b.node, err = process.Start(b.path("server.log"), "/usr/bin/env", append(environment, server, "-noinput")...); err != nil {
		b.Stop()
		return nil, err
	}
	if err := b.waitReady(ctx); err != nil {
		b.Stop()
		return nil, fmt.Errorf("%w; its last words:\n%s", err, process.LastWords(b.path("server.log"), lines))
	}
	return b, nil
}

func (b *Broker) path(name string) string { return filepath.Join(b.dir, name) }

// configure writes what the broker reads when it starts.
func (b *Broker) configure() error {
	const private, secretly = 0o700, 0o400 // Erlang insists on it for its cookie
	if err := os.MkdirAll(b.path("home"), private); err != nil {
		return fmt.Errorf("directory of RabbitMQ: %w", err)
	}
	for name, text := range map[string]string{
		"home/.erlang.cookie": secret(),
		"enabled_plugins":     "[rabbitmq_management].\n",
		"rabbitmq.conf": fmt.Sprintf(`listeners.tcp.1 = 127.0.0.1:%d
management.tcp.ip = 127.0.0.1
management.tcp.port = %d
management_agent.disable_metrics_collector = true
default_user = %s
default_pass = %s
disk_free_limit.absolute = 1MB
log.console = true
log.file = false
`, b.ports.amqp, b.ports.management, admin, b.password),
	} {
		if err := os.WriteFile(b.path(name), []byte(text), secretly); err != nil {
			return fmt.Errorf("configuration of RabbitMQ: %w", err)
		}
	}
	return nil
}

// environment has env(1) run a program with nothing but these variables.
func (b *Broker) environment() []string {
	return []string{
		"-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8", "HOME=" + b.path("home"),
		"ERL_EPMD_ADDRESS=127.0.0.1", fmt.Sprintf("ERL_EPMD_PORT=%d", b.ports.mapper),
		fmt.Sprintf("RABBITMQ_NODENAME=lab-%d@localhost", b.ports.amqp), fmt.Sprintf("RABBITMQ_DIST_PORT=%d", b.ports.distribution),
		"RABBITMQ_MNESIA_BASE=" + b.path("data"), "RABBITMQ_LOG_BASE=" + b.path("log"),
		"RABBITMQ_CONFIG_FILE=" + b.path("rabbitmq.conf"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + b.path("none"),
		"RABBITMQ_CONF_ENV_FILE=" + b.path("none"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + b.path("enabled_plugins"),
		"RABBITMQ_PID_FILE=" + b.path("pid"), "RABBITMQ_FEATURE_FLAGS_FILE=" + b.path("feature_flags"), "RABBITMQ_ALLOW_INPUT=1",
		// Schedulers that wait busily would take the time of whoever else is at work.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none",
	}
}

// waitReady waits until the administrator can log in both ways.
func (b *Broker) waitReady(ctx context.Context) error {
	const pause = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	for {
		err := b.call(ctx, http.MethodGet, "whoami", nil)
		if err == nil {
			var accepted bool
			if accepted, err = b.Login(ctx, admin, b.password); accepted {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", errors.Join(ctx.Err(), err))
		case <-b.node.Done():
			return fmt.Errorf("it has ended by itself: %w", errors.Join(b.node.Err(), err))
		case <-time.After(pause):
		}
	}
}

// Stop ends the broker. Its directory stays.
func (b *Broker) Stop() {
	if b.node != nil {
		b.node.Stop(patience)
	}
	b.mapper.Stop(patience)
}

// URL is what a service of OpenStack would have as its transport_url to log in as that user.
func (b *Broker) URL(name, password string) string {
	return fmt.Sprintf("rabbit://%s@127.0.0.1:%d/", url.UserPassword(name, password), b.ports.amqp)
}

// AddUser makes a user who may do anything with messages.
func (b *Broker) AddUser(ctx context.Context, name, password string) error {
	err := b.call(ctx, http.MethodPut, "users/"+url.PathEscape(name), map[string]string{"password": password, "tags": ""})
	if err != nil {
		return fmt.Errorf("adding user %s: %w", name, err)
	}
	everything := map[string]string{"configure": ".*", "write": ".*", "read": ".*"}
	if err := b.call(ctx, http.MethodPut, "permissions/%2F/"+url.PathEscape(name), everything); err != nil {
		return fmt.Errorf("rights of user %s: %w", name, err)
	}
	return nil
}

// DeleteUser deletes a user, who has to exist; the broker closes the user's connections.
func (b *Broker) DeleteUser(ctx context.Context, name string) error {
	if err := b.call(ctx, http.MethodDelete, "users/"+url.PathEscape(name), nil); err != nil {
		return fmt.Errorf("deleting user %s: %w", name, err)
	}
	return nil
}

// Login opens an AMQP connection as an agent would, and closes it. Accepted is false where the broker refuses the name
// with this password; an error says that there is no answer.
func (b *Broker) Login(ctx context.Context, name, password string) (accepted bool, err error) {
	return LoginURL(ctx, b.URL(name, password))
}

// LoginURL is Login with what stands in an agent's file.
func LoginURL(ctx context.Context, transportURL string) (accepted bool, err error) {
	address := strings.Replace(transportURL, "rabbit://", "amqp://", 1)
	connection, err := amqp.DialConfig(address, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: answer}
		c, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(answer)) // the library lifts it when the connection is open
		}
		return c, err
	}})
	var refusal *amqp.Error
	switch {
	case errors.As(err, &refusal) && refusal.Code == amqp.AccessRefused:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("logging in: %w", err)
	}
	if err := connection.Close(); err != nil {
		return true, fmt.Errorf("logging out: %w", err)
	}
	return true, nil
}

// call asks the management API for something.
func (b *Broker) call(ctx context.Context, method, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d/api/%s", b.ports.management, path), content)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.SetBasicAuth(admin, b.password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	const enough = 4096
	said, err := io.ReadAll(io.LimitReader(response.Body, enough))
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", response.Status, said)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func secret() string {
	const size = 16
	random := make([]byte, size)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}

// freePorts are ports on loopback where nobody listens.
func freePorts() (ports, error) {
	var p ports
	for _, port := range []*int{&p.amqp, &p.management, &p.distribution, &p.mapper} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, fmt.Errorf("no free port on loopback: %w", err)
		}
		defer listener.Close() // at the end, so that no port comes twice
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return ports{}, fmt.Errorf("%s is no TCP address", listener.Addr())
		}
		*port = address.Port
	}
	return p, nil
}
