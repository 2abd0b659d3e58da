// Command vcsim serves govmomi's vCenter simulator as govmomi ships it, without anything of ours.
package main

import (
	"crypto/tls"
	"flag"
	"log"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8989", "address to listen on")
	username := flag.String("username", "", "the one user who may log in")
	passwordFile := flag.String("password-file", "", "file with that user's password")
	flag.Parse()
	password, err := os.ReadFile(*passwordFile)
	if err != nil {
		log.Fatal(err)
	}
	model := simulator.VPX()
	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	defer model.Remove()
	user := url.UserPassword(*username, strings.TrimSpace(string(password)))
	model.Service.Listen = &url.URL{Host: *listen, User: user}
	model.Service.RegisterEndpoints = true
	model.Service.TLS = new(tls.Config)
	server := model.Service.NewServer()
	defer server.Close()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
