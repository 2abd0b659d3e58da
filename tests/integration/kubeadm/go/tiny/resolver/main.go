// Command resolver stands where CoreDNS would: it resolves nothing, and says that it is ready once it has reached the
// API server by its service's address, over the pod's own interface.
package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	client := http.Client{
		Timeout: 2 * time.Second,
		// a probe of the way, not of who is at its end
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	server := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	ready := func(answer http.ResponseWriter, _ *http.Request) {
		reply, err := client.Get(server + "/readyz")
		if err != nil {
			http.Error(answer, err.Error(), http.StatusServiceUnavailable)
			return
		}
		reply.Body.Close()
		answer.WriteHeader(reply.StatusCode)
	}
	alive := func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(http.StatusOK) }
	// the two addresses that kubeadm's deployment probes
	go func() { _ = http.ListenAndServe(":8181", http.HandlerFunc(ready)) }()
	_ = http.ListenAndServe(":8080", http.HandlerFunc(alive))
	os.Exit(1)
}
