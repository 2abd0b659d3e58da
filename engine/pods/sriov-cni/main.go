// Command sriov-cni stands in for the SR-IOV CNI plugin, whose releases since 2019 are no Go modules.
//
// It gives a pod a VF with VLAN, spoof check and trust, as sriov-cni 2.10 does with the same settings, and takes it
// back. It knows what the lab's networks say and refuses every other key, which the real plugin may know.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ipam"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// about is what the runtime shows for the plugin; the lab's doctor and docs use the same word.
const about = "sriov-cni (stand-in)"

// settings is the network's configuration, with what libcni and Multus add to it.
type settings struct {
	CNIVersion    string          `json:"cniVersion"`
	Name          string          `json:"name"`
	Type          string          `json:"type"`
	Capabilities  map[string]bool `json:"capabilities"`
	RuntimeConfig json.RawMessage `json:"runtimeConfig"`
	Args          json.RawMessage `json:"args"`
	PrevResult    json.RawMessage `json:"prevResult"`
	DNS           json.RawMessage `json:"dns"`
	PCIBusID      string          `json:"pciBusID"`

	DeviceID string          `json:"deviceID"`
	VLAN     *int            `json:"vlan"`
	SpoofChk string          `json:"spoofchk"`
	Trust    string          `json:"trust"`
	IPAM     json.RawMessage `json:"ipam"`
}

func read(stdin []byte) (*settings, string, error) {
	conf := &settings{}
	decoder := json.NewDecoder(bytes.NewReader(stdin))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(conf); err != nil {
		return nil, "", fmt.Errorf("%s: configuration: %w", about, err)
	}
	if conf.DeviceID == "" {
		return nil, "", fmt.Errorf("%s: VF pci addr is required: the network needs the annotation k8s.v1.cni.cncf.io/resourceName, "+
			"and the pod has to ask for that resource", about)
	}
	if conf.VLAN != nil && (*conf.VLAN < 0 || *conf.VLAN > 4094) {
		return nil, "", fmt.Errorf("%s: vlan: %d is not between 0 and 4094", about, *conf.VLAN)
	}
	for key, value := range map[string]string{"spoofchk": conf.SpoofChk, "trust": conf.Trust} {
		if value != "" && value != "on" && value != "off" {
			return nil, "", fmt.Errorf("%s: %s: %q is neither on nor off", about, key, value)
		}
	}
	source := struct {
		Type string `json:"type"`
	}{}
	if err := json.Unmarshal(conf.IPAM, &source); err != nil || source.Type == "" {
		return nil, "", fmt.Errorf("%s: ipam: a type is needed", about)
	}
	return conf, source.Type, nil
}

// loan is what is written down while a pod has a VF, for giving it back.
type loan struct {
	DeviceID string
	Name     string
	MTU      int
}

func loanFile(args *skel.CmdArgs) string {
	return filepath.Join("/var/lib/cni/sriov", args.ContainerID+"-"+args.IfName)
}

// port is a VF's place on its PF, from where VLAN and rights are set.
type port struct {
	pf     netlink.Link
	number int
}

func portOf(device string) (*port, error) {
	pf := filepath.Join("/sys/bus/pci/devices", device, "physfn")
	functions, err := filepath.Glob(filepath.Join(pf, "virtfn*"))
	if err != nil || len(functions) == 0 {
		return nil, fmt.Errorf("%s is no VF, or is not there", device)
	}
	for _, function := range functions {
		target, err := os.Readlink(function)
		if err != nil || filepath.Base(target) != device {
			continue
		}
		var number int
		if _, err := fmt.Sscanf(filepath.Base(function), "virtfn%d", &number); err != nil {
			return nil, err
		}
		name, err := only(filepath.Join(pf, "net"))
		if err != nil {
			return nil, fmt.Errorf("PF of %s: %w", device, err)
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("PF %s: %w", name, err)
		}
		return &port{link, number}, nil
	}
	return nil, fmt.Errorf("the PF of %s does not know it", device)
}

// configure sets what the network says; vlan nil leaves it untouched, as do empty words.
func (p *port) configure(vlan *int, spoofChk, trust string) error {
	name := p.pf.Attrs().Name
	if vlan != nil {
		if err := netlink.LinkSetVfVlan(p.pf, p.number, *vlan); err != nil {
			return fmt.Errorf("%s, VF %d: vlan %d: %w", name, p.number, *vlan, err)
		}
	}
	if spoofChk != "" {
		if err := netlink.LinkSetVfSpoofchk(p.pf, p.number, spoofChk == "on"); err != nil {
			return fmt.Errorf("%s, VF %d: spoofchk %s: %w", name, p.number, spoofChk, err)
		}
	}
	if trust != "" {
		if err := netlink.LinkSetVfTrust(p.pf, p.number, trust == "on"); err != nil {
			return fmt.Errorf("%s, VF %d: trust %s: %w", name, p.number, trust, err)
		}
	}
	return nil
}

// only is the name of the one entry of a folder.
func only(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		return "", fmt.Errorf("%s has %d interfaces here, not one: in a pod already, or without its driver", folder, len(entries))
	}
	return entries[0].Name(), nil
}

// move takes an interface that is down out of `from` and gives it a name in `to`; on its way it has one of its own, since
// the other namespace may have the same names.
func move(from, to ns.NetNS, name, newName string) (link netlink.Link, err error) {
	var passing string
	err = from.Do(func(ns.NetNS) error {
		found, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		passing = fmt.Sprintf("vf%d", found.Attrs().Index)
		return errors.Join(
			netlink.LinkSetDown(found),
			netlink.LinkSetName(found, passing),
			netlink.LinkSetNsFd(found, int(to.Fd())),
		)
	})
	if err != nil {
		return nil, err
	}
	err = to.Do(func(ns.NetNS) error {
		if link, err = netlink.LinkByName(passing); err != nil {
			return fmt.Errorf("%s: %w", passing, err)
		}
		if err := netlink.LinkSetName(link, newName); err != nil {
			return fmt.Errorf("%s: %w", newName, err)
		}
		link, err = netlink.LinkByName(newName)
		return err
	})
	return link, err
}

func add(args *skel.CmdArgs) (err error) {
	conf, source, err := read(args.StdinData)
	if err != nil {
		return err
	}
	place, err := portOf(conf.DeviceID)
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	name, err := only(filepath.Join("/sys/bus/pci/devices", conf.DeviceID, "net"))
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", about, name, err)
	}
	host, pod, err := namespaces(args.Netns)
	if err != nil {
		return err
	}
	defer host.Close()
	defer pod.Close()
	if err := write(loanFile(args), loan{conf.DeviceID, name, link.Attrs().MTU}); err != nil {
		return err
	}
	defer func() {
		if err != nil { // what fails half-way is undone here: the runtime may ask for no DEL
			_ = giveBack(args)
		}
	}()
	if err := place.configure(conf.VLAN, conf.SpoofChk, conf.Trust); err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	inPod, err := move(host, pod, name, args.IfName)
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	answer, err := ipam.ExecAdd(source, args.StdinData)
	if err != nil {
		return fmt.Errorf("%s: ipam %s: %w", about, source, err)
	}
	defer func() {
		if err != nil {
			_ = ipam.ExecDel(source, args.StdinData)
		}
	}()
	result, err := current.NewResultFromResult(answer)
	if err != nil {
		return err
	}
	result.Interfaces = []*current.Interface{{
		Name:    args.IfName,
		Mac:     inPod.Attrs().HardwareAddr.String(),
		Sandbox: args.Netns,
		PciID:   conf.DeviceID,
	}}
	for _, address := range result.IPs {
		address.Interface = current.Int(0)
	}
	if err := pod.Do(func(ns.NetNS) error { return ipam.ConfigureIface(args.IfName, result) }); err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	return types.PrintResult(result, conf.CNIVersion)
}

func del(args *skel.CmdArgs) error {
	if _, source, err := read(args.StdinData); err == nil {
		if err := ipam.ExecDel(source, args.StdinData); err != nil {
			return fmt.Errorf("%s: ipam %s: %w", about, source, err)
		}
	}
	return giveBack(args)
}

// giveBack leaves the VF as it was before the pod had it. What is no longer lent is left alone, as CNI wants.
func giveBack(args *skel.CmdArgs) error {
	content, err := os.ReadFile(loanFile(args))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lent := loan{}
	if err := errors.Join(err, json.Unmarshal(content, &lent)); err != nil {
		return err
	}
	if host, pod, err := namespaces(args.Netns); err == nil {
		defer host.Close()
		defer pod.Close()
		if _, err := move(pod, host, args.IfName, lent.Name); err != nil && !gone(err) {
			return fmt.Errorf("%s: %w", about, err)
		}
	} // else the namespace is gone, and the kernel has put the VF back
	if name, err := only(filepath.Join("/sys/bus/pci/devices", lent.DeviceID, "net")); err == nil {
		if link, err := netlink.LinkByName(name); err == nil {
			if name != lent.Name { // the kernel left it the name that it had in the pod, and udev made the old one a second
				_ = netlink.LinkDelAltName(link, lent.Name)
				err = errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, lent.Name))
			}
			if err := errors.Join(err, netlink.LinkSetMTU(link, lent.MTU), netlink.LinkSetUp(link)); err != nil {
				return fmt.Errorf("%s: %s: %w", about, name, err)
			}
		}
	}
	if place, err := portOf(lent.DeviceID); err == nil {
		untagged := 0
		if err := place.configure(&untagged, "on", "off"); err != nil {
			return fmt.Errorf("%s: %w", about, err)
		}
	}
	return os.Remove(loanFile(args))
}

func check(args *skel.CmdArgs) error {
	conf, source, err := read(args.StdinData)
	if err != nil {
		return err
	}
	if err := ipam.ExecCheck(source, args.StdinData); err != nil {
		return fmt.Errorf("%s: ipam %s: %w", about, source, err)
	}
	place, err := portOf(conf.DeviceID)
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	for _, vf := range place.pf.Attrs().Vfs {
		if vf.ID == place.number && conf.VLAN != nil && vf.Vlan != *conf.VLAN {
			return fmt.Errorf("%s: %s has vlan %d, not %d", about, conf.DeviceID, vf.Vlan, *conf.VLAN)
		}
	}
	return ns.WithNetNSPath(args.Netns, func(ns.NetNS) error {
		_, err := netlink.LinkByName(args.IfName)
		return err
	})
}

func namespaces(path string) (host, pod ns.NetNS, err error) {
	if pod, err = ns.GetNS(path); err != nil {
		return nil, nil, fmt.Errorf("%s: namespace %q: %w", about, path, err)
	}
	if host, err = ns.GetCurrentNS(); err != nil {
		pod.Close()
		return nil, nil, err
	}
	return host, pod, nil
}

func write(file string, lent loan) error {
	content, err := json.Marshal(lent)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, content, 0o600))
}

func gone(err error) bool {
	return errors.As(err, &netlink.LinkNotFoundError{})
}

func main() {
	functions := skel.CNIFuncs{Add: add, Check: check, Del: del}
	skel.PluginMainFuncs(functions, version.PluginSupports("0.3.1", "0.4.0", "1.0.0"), about)
}
