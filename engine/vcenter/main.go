// Command vcenter is a simulated vCenter on loopback: govmomi's simulator, with what the vSphere provider needs on top.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/google/uuid"
	// Storage policies and tags: the provider logs in to both, and without them its login fails with 404.
	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
)

// settings of one simulated vCenter. The password comes by file, since a command line is everybody's to read.
type settings struct {
	listen, username, passwordFile, certificate, key, control string
	hosts                                                     int
}

func main() {
	var given settings
	flag.StringVar(&given.listen, "listen", "127.0.0.1:8989", "address to listen on")
	flag.StringVar(&given.username, "username", "", "the one user who may log in; empty: anybody")
	flag.StringVar(&given.passwordFile, "password-file", "", "file with that user's password")
	flag.StringVar(&given.certificate, "tls-cert", "", "certificate; empty: one that the Go test server brings along")
	flag.StringVar(&given.key, "tls-key", "", "key of the certificate")
	flag.StringVar(&given.control, "control", "", "unix socket on which faults are asked for; empty: none")
	flag.IntVar(&given.hosts, "hosts", 4, "ESXi hosts in the cluster; one more stands beside it")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: vcenter [flags] [COMMAND ...]\n\n"+
			"COMMAND starts and ends the guests of VMs; without it they have none.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		outside.command = flag.Args()
	}
	if err := serve(given); err != nil {
		log.Fatal(err)
	}
}

// serve runs until the process is asked to end. The address, printed once it answers, is without user and password.
func serve(given settings) error {
	model := simulator.VPX()
	model.ClusterHost = given.hosts
	model.Machine = 1 // one per pool: a template to clone from
	model.ServiceContent.About.ApiVersion = apiVersion
	// The simulator's own is made from the machine's first MAC: the same at each start, though the inventory is not.
	model.ServiceContent.About.InstanceUuid = uuid.NewString()
	if err := model.Create(); err != nil {
		return err
	}
	defer model.Remove()
	equip(model.Map())
	complete(model)
	model.Map().Handler = held.after(model.Map().Handler)
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{Host: given.listen}
	if given.username != "" {
		password, err := os.ReadFile(given.passwordFile)
		if err != nil {
			return fmt.Errorf("-password-file: %w", err)
		}
		model.Service.Listen.User = url.UserPassword(given.username, strings.TrimSpace(string(password)))
	}
	model.Service.TLS = new(tls.Config)
	if given.certificate != "" {
		pair, err := tls.LoadX509KeyPair(given.certificate, given.key)
		if err != nil {
			return fmt.Errorf("-tls-cert, -tls-key: %w", err)
		}
		model.Service.TLS.Certificates = []tls.Certificate{pair}
	}
	server := model.Service.NewServer()
	defer server.Close()
	if given.control != "" {
		if err := serveControl(given.control, model); err != nil {
			return fmt.Errorf("-control: %w", err)
		}
	}
	fmt.Printf("https://%s%s\n", server.URL.Host, server.URL.Path)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	return nil
}
