// Command vcenter runs a simulated vCenter that the vSphere provider can drive.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"

	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8989", "address")
	hosts := flag.Int("hosts", 3, "cluster hosts")
	flag.Parse()
	m := simulator.VPX()
	m.ClusterHost = *hosts
	m.Machine = 1
	if err := m.Create(); err != nil {
		log.Fatal(err)
	}
	installShim(m)
	m.Service.RegisterEndpoints = true
	m.Service.Listen = &url.URL{Host: *listen}
	m.Service.TLS = new(tls.Config)
	s := m.Service.NewServer()
	fmt.Println(s.URL)
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	<-c
}
