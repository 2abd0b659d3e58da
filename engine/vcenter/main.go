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
	"syscall"

	// Storage policies and tags: the provider logs in to both, and without them its login fails with 404.
	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8989", "address to listen on")
	hosts := flag.Int("hosts", 3, "ESXi hosts in the cluster")
	flag.Parse()
	if err := serve(*listen, *hosts); err != nil {
		log.Fatal(err)
	}
}

// serve runs until the process is asked to end. The URL, printed once it answers, holds user and password.
func serve(listen string, hosts int) error {
	model := simulator.VPX()
	model.ClusterHost = hosts
	model.Machine = 1 // one per pool: a template to clone from
	if err := model.Create(); err != nil {
		return err
	}
	defer model.Remove()
	complete(model)
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{Host: listen}
	model.Service.TLS = new(tls.Config)
	server := model.Service.NewServer()
	defer server.Close()
	fmt.Println(server.URL)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	return nil
}
