// Command manager is the rotation operator.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rotation-operator/rotation-operator/config/policies"
	"github.com/rotation-operator/rotation-operator/internal/operator"
	"github.com/rotation-operator/rotation-operator/internal/uninstall"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var options operator.Options
	var kubeconfig string
	var verbosity int
	command := &cobra.Command{
		Use:           "manager",
		Short:         "Track which version of each Secret every data-plane node runs",
		Args:          cobra.NoArgs,
		Version:       operator.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
			ctrl.SetLogger(logr.FromSlogHandler(handler))
			config, err := access(kubeconfig)
			if err != nil {
				return err
			}
			return operator.Run(command.Context(), config, options)
		},
	}
	const margin = 10 * time.Second
	command.PersistentFlags().StringVar(&kubeconfig, "kubeconfig", "", "path of a kubeconfig; without it $KUBECONFIG or the pod's own account is used")
	flags := command.Flags()
	flags.StringSliceVar(&options.Namespaces, "namespace", nil, "namespace to look at, may be repeated; without it all")
	flags.DurationVar(&options.Margin, "margin", margin, "how long before a pod's creation a kubelet may still have served the older content of a Secret")
	flags.StringVar(&options.MetricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address of the metrics, 0 for none")
	flags.StringVar(&options.HealthAddress, "health-probe-bind-address", ":8081", "address of the probes, 0 for none")
	flags.BoolVar(&options.LeaderElection, "leader-elect", true, "let only one of several processes work")
	flags.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the leader's Lease; without it the pod's own")
	flags.IntVarP(&verbosity, "verbosity", "v", 0, "0 logs decisions, 1 more")
	command.AddCommand(uninstallCommand(&kubeconfig))
	return command
}

// access is the way to the API server.
func access(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: %w", err)
	}
	config.QPS = -1 // the API server's own fairness decides
	return config, nil
}

func uninstallCommand(kubeconfig *string) *cobra.Command {
	var options uninstall.Options
	var keepPolicies bool
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Take policies, finalizers and objects of the operator out of the cluster; it must not run any more",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := access(*kubeconfig)
			if err != nil {
				return err
			}
			scheme, err := operator.Scheme()
			if err != nil {
				return err
			}
			if options.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
				return fmt.Errorf("no client for the API server: %w", err)
			}
			if !keepPolicies {
				objects, err := policies.Objects()
				if err != nil {
					return err
				}
				for _, object := range objects {
					options.Policies = append(options.Policies, object)
				}
			}
			options.Out = command.OutOrStdout()
			return uninstall.Run(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&options.Namespaces, "namespace", nil, "namespace to clean, may be repeated; without it all")
	flags.BoolVar(&options.ReleaseHeld, "release-held", false, "let credentials go that were deleted and that nodes may still run")
	flags.BoolVar(&keepPolicies, "keep-policies", false, "leave the admission policies, which are for the whole cluster, for other namespaces")
	return command
}
