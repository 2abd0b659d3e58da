"""A guest whose network belongs to netplan, NetworkManager or systemd-networkd."""

import re
from pathlib import Path

from components.hosts.program.machine import Done
from tests.components.hosts.kernel import FakeHost, done, info

PROFILES, RUN_PROFILES = "/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"
RUN_NETWORKS = "/run/systemd/network"
RECORDED = Path(__file__).with_name("recorded") / "netplan-0.106"
ADDRESS = "10.10.11.11/24"
OTHERS = {
    "netplan": ("/etc/netplan/50-cloud-init.yaml", "network:\n  ethernets:\n    enp0s3: {dhcp4: true}\n  version: 2\n"),
    "nmcli": ("/etc/NetworkManager/system-connections/enp0s3.nmconnection", "[connection]\nid=enp0s3\n"),
}


class NetworkGuest(FakeHost):
    """A guest whose addresses one tool keeps: Ubuntu or RHEL 9."""

    def __init__(self, root: Path, tool: str) -> None:
        super().__init__(root)
        self.tool, _, self.renderer = tool.partition("-")
        self.peers: set[str] = {"10.10.11.12"}
        self.frame_bytes = 9000
        self.file(*OTHERS[self.tool])
        if self.tool == "netplan":
            self.file("/usr/sbin/netplan", "")

    def answer(self, words: tuple[str, ...]) -> Done | None:  # noqa: PLR0911  # one line a program
        match words:
            case ("nmcli", "-t", "-f", "RUNNING", "general"):
                running = self.tool == "nmcli" or self.renderer == "NetworkManager"
                return Done(0, "running\n", "") if running else Done(127, "", "nmcli is not installed")
            case ("netplan", "generate", "--root-dir", folder):
                return self._generate(Path(folder))
            case ("networkctl", "reload"):
                return self._take(RUN_NETWORKS, r"^Address=(\S+)")
            case ("nmcli", "--wait", _, "connection", "up", _):
                return self._take(PROFILES, r"^address1=(\S+)", RUN_PROFILES)
            case ("nmcli", "--wait", _, "connection", "down", _):
                self.links["enp5s0"]["addr_info"] = []
                return done()
            case ("ping", *options, peer):
                size = int(options[-1]) + 28 if "-s" in options else 0
                return Done(0 if peer in self.peers and size <= self.frame_bytes else 1, "", "")
            case ("networkctl" | "nmcli", *_):
                return done()
        return None

    def _generate(self, folder: Path) -> Done:
        """What netplan 0.106 makes of our file, of the clone's, or of both, with the renderer of the guest's choice."""
        texts = {path.name: path.read_text() for path in (folder / "etc/netplan").glob("*.yaml")}
        defining = [name for name, text in texts.items() if "enp5s0:" in text]
        if not defining:
            return done()
        address = re.findall(r"- (10\S+)\n", texts[defining[0]])[0]
        network = self.renderer == "networkd"
        name = "10-netplan-enp5s0.network" if network else "netplan-enp5s0.nmconnection"
        if defining == ["99-netcfg-vmware.yaml"]:
            name = "customization-alone.network"
        elif "99-netcfg-vmware.yaml" in defining:
            name = "customization-and-ours.network"
        rendered = "10-netplan-enp5s0.network" if network else name
        place = folder / (RUN_NETWORKS if network else RUN_PROFILES)[1:] / rendered
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((RECORDED / name).read_text().replace(ADDRESS, address))
        return done()

    def _take(self, folder: str, pattern: str, other: str = "") -> Done:
        texts = [self.read(f"{place}/{name}") for place in (folder, other) if place for name in self.names(place)]
        found = [match for text in texts for match in re.findall(pattern, text, re.MULTILINE)]
        self.links["enp5s0"].update(addr_info=[info(address) for address in dict.fromkeys(found)], mtu=9000)
        return done()
