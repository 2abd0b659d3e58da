// Command plane is a Kubernetes control plane in one binary: plane etcd|apiserver|controller-manager|scheduler.
//
// One binary instead of four halves the build time and the disk space, since three of them share their packages.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// components construct a command each. Only the chosen one is constructed: the API server's constructor takes the
// process's only signal handler, and the scheduler's would panic after it.
var components = map[string]func() *cobra.Command{
	"etcd":               newEtcdCommand,
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": controllermanager.NewControllerManagerCommand,
	"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		names := make([]string, 0, len(components))
		for name := range components {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: plane %s [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	command := components[os.Args[1]]()
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}
