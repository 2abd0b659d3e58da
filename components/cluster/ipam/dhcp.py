"""The DHCP daemon of the CNI plugins, which renews leases; the plugin itself exits at once."""

from components.cluster.ipam import AddressSource
from components.cluster.manifests import CNI_BIN, Manifest, Program, daemon_set, host_folder, mount, resources
from stacks.rails import Rail

APP = "cni-dhcp"
SOCKET_FOLDER = "/run/cni"


class DhcpDaemon(AddressSource):
    """The lab's own DHCP server gives the addresses."""

    name = "dhcp"

    def for_rail(self, rail: Rail) -> Manifest:
        del rail
        return {"type": "dhcp"}

    def program(self) -> Program:
        """One daemon per node. It enters the namespaces of pods, so it sees them as the node does.

        It runs the node's own plugin file, because the protocol of daemon and plugin differs between releases.
        """
        inbound = "HostToContainer"
        daemon: Manifest = {
            "name": "dhcp",
            "image": self.cluster.bill.dhcp_shell,
            # the socket of a killed daemon would make the next one fail
            "command": [
                "/bin/sh",
                "-c",
                f"rm -f {SOCKET_FOLDER}/dhcp.sock && exec {CNI_BIN}/dhcp daemon -socketpath {SOCKET_FOLDER}/dhcp.sock",
            ],
            "resources": resources("10m", "20Mi", "100Mi"),
            "securityContext": {"privileged": True},
            "volumeMounts": [
                {"name": "cnibin", "mountPath": CNI_BIN, "readOnly": True},
                mount("socket", SOCKET_FOLDER),
                # pods that start later must appear here
                mount("netns", "/run/netns", inbound),
                mount("netns", "/var/run/netns", inbound),
            ],
        }
        pod: Manifest = {
            "hostNetwork": True,
            "hostPID": True,
            "automountServiceAccountToken": False,
            "containers": [daemon],
            "volumes": [
                host_folder("cnibin", CNI_BIN),
                host_folder("socket", SOCKET_FOLDER, create=True),
                host_folder("netns", "/run/netns"),
            ],
        }
        return Program(runs={"daemonset": daemon_set("kube-cni-dhcp-ds", APP, self.cluster.system_namespace, pod)})
