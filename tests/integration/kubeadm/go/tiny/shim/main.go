// Command shim runs the simulator's control plane as the component that it is called as: kubeadm's static pods name
// one program each, and plane is four in one.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	component := strings.TrimPrefix(filepath.Base(os.Args[0]), "kube-")
	words := append([]string{"plane", component}, os.Args[1:]...)
	fmt.Fprintln(os.Stderr, syscall.Exec("/plane", words, os.Environ()))
	os.Exit(1)
}
