package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotation-operator/rotation-operator/internal/report"
	"github.com/rotation-operator/rotation-operator/internal/web"
)

const dashboardLong = `Serve a read-only page on this machine, until you interrupt it: what may be
deleted and why not, each NodeSet node by node, and what ran. It reads with your
own rights, only while somebody looks, and updates itself.

Only who has the whole address gets anything; it is another one each time.`

func (t *tool) dashboardCommand() *cobra.Command {
	var port int
	var every time.Duration
	command := &cobra.Command{
		Use: "dashboard", Short: "Serve a page to look at, on this machine only", Long: dashboardLong, Args: between(0, 0, ""),
		RunE: func(command *cobra.Command, _ []string) error {
			const most = 65535
			switch {
			case every < leastInterval:
				return misused("--every must be %s at least", leastInterval)
			case port < 0 || port > most:
				return misused("--port must be 0 to %d", most)
			}
			return t.dashboard(command.Context(), port, every)
		},
	}
	command.Flags().IntVar(&port, "port", 0, "the port on loopback; 0 takes a free one")
	command.Flags().DurationVar(&every, "every", 2*time.Second, "how long between two looks")
	return t.addFlags(command, everywhere|selects)
}

func (t *tool) dashboard(ctx context.Context, port int, every time.Duration) error {
	if _, err := t.report(ctx); err != nil { // what never works is better said here than on the page
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("the page cannot be served: %w", err)
	}
	token := rand.Text()
	const headers = 10 * time.Second
	source := func(ctx context.Context) (report.Report, error) {
		r, err := t.report(ctx)
		if err != nil || t.selector == "" {
			return r, err
		}
		return t.selected(r, "")
	}
	server := &http.Server{
		Handler: web.New(source, token, every), ReadHeaderTimeout: headers,
		BaseContext: func(net.Listener) context.Context { return ctx }, // whoever listens for changes is let go at the end
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing is lost by it
	defer stopped()
	fmt.Fprintf(t.streams.Out, "http://%s/%s/\n", listener.Addr(), token)
	fmt.Fprintln(t.streams.ErrOut, "Open this address in a browser on this machine; Ctrl-C ends it.")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the page cannot be served: %w", err)
	}
	return nil
}
