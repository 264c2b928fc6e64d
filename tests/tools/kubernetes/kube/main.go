// All programs of Kubernetes that a cluster for tests needs, in one binary: "kube kubelet --help".
// Linked together, they are built once and share what they have in common.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command(name string) *cobra.Command {
	switch name {
	case "apiserver":
		return apiserver.NewAPIServerCommand()
	case "controller-manager":
		return manager.NewControllerManagerCommand()
	case "scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	case "proxy":
		return proxy.NewProxyCommand()
	case "kubectl":
		return kubectl.NewDefaultKubectlCommand()
	}
	return nil
}

func main() {
	if len(os.Args) > 1 {
		name := os.Args[1]
		os.Args = append([]string{"kube-" + name}, os.Args[2:]...)
		if program := command(name); program != nil {
			os.Exit(cli.Run(program))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: kube apiserver|controller-manager|scheduler|kubelet|proxy|kubectl [ARGUMENT...]")
	os.Exit(2)
}
