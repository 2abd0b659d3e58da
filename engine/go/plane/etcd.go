package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand is a one-member etcd for one control plane. It does not sync to disk: a simulator that loses
// its last second in a power cut loses nothing that the next run does not make again.
func newEtcdCommand() *cobra.Command {
	var dataDir, listen string
	command := &cobra.Command{
		Use:   "etcd",
		Short: "Store of the control plane, on one address of the loopback",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return serveEtcd(dataDir, listen) },
	}
	command.Flags().StringVar(&dataDir, "data-dir", "etcd", "folder of the store, made when missing")
	command.Flags().StringVar(&listen, "listen", "http://127.0.0.1:22379", "URL that clients connect to")
	return command
}

func serveEtcd(dataDir, listen string) error {
	client, err := url.Parse(listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}

	config := embed.NewConfig()
	config.Dir = dataDir
	config.UnsafeNoFsync = true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case err := <-server.Err():
		return err
	case <-stop:
		return nil
	}
}
