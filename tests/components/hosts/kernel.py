"""A small kernel in a folder: what it does on writes and commands was seen on the simulator's nodes."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

from components.hosts.program.machine import Done, Machine

PFS = {"enp5s0": "0000:05", "enp132s0": "0000:84"}
"""PFs of a node with the PCI bus of each."""
VF_LIMIT = 7


def done(out: str = "") -> Done:
    return Done(0, out, "")


class FakeHost(Machine):
    """A node after its first boot: two PFs down, no VF, no RDMA module."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.folder = root
        self.links: dict[str, dict[str, Any]] = {"lo": link(["127.0.0.1/8"]), "enp0s3": link(["192.168.1.11/24"])}
        self.soft: dict[str, str] = {}
        self.opened: set[str] = set()
        self.commands: list[str] = []
        self.stdin = ""
        """Of the last command."""
        self.answers: dict[str, Done] = {}
        """What further programs print, by their command line."""
        self.written: list[tuple[str, str]] = []
        self.busy_namespaces = False
        self.clock_s = 1000.0
        for name in ("run/systemd/system", "sys/bus/pci", "proc/self", "etc", "sys/class/infiniband"):
            (root / name).mkdir(parents=True)
        self.file("/etc/machine-id", "00000000000000000000000000000001\n")
        self.file("/sys/module/ib_core/parameters/netns_mode", "Y\n")
        self.file("/proc/sys/kernel/random/boot_id", "first\n")
        for pf, bus in PFS.items():
            self.links[pf] = {
                **link([]),
                "address": f"52:54:00:{bus[-2:]}:00:01",
                "mtu": 1500,
                "flags": ["BROADCAST", "MULTICAST"],
            }
            device = self.folder / f"sys/devices/{bus}:00.0"
            (device / "net").mkdir(parents=True)
            self.symlink(f"/sys/class/net/{pf}/device", device)
            self.symlink(f"/sys/devices/{bus}:00.0/driver", self.folder / "sys/bus/pci/drivers/igb")
            for attribute, value in {"numvfs": "0", "totalvfs": "7", "drivers_autoprobe": "1"}.items():
                self.file(f"/sys/devices/{bus}:00.0/sriov_{attribute}", value)
            for key in ("arp_ignore", "arp_announce", "rp_filter"):
                self.file(f"/proc/sys/net/ipv4/conf/{pf}/{key}", "0")

    def file(self, path: str, text: str) -> None:
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def symlink(self, path: str, target: Path) -> None:
        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def driver(self, pf: str, name: str) -> Path:
        """Puts a PF on another driver; returns its device."""
        device = self.folder / f"sys/devices/{PFS[pf]}:00.0"
        (device / "driver").unlink()
        (device / "driver").symlink_to(self.folder / "sys/bus/pci/drivers" / name)
        return device

    def now_s(self) -> float:
        return self.clock_s

    def pause(self, seconds: float) -> None:
        self.clock_s += seconds

    def vf(self, pf: str, number: int) -> Path:
        return self.folder / f"sys/class/net/{pf}/device/virtfn{number}"

    def to_namespace(self, pf: str, number: int) -> None:
        """`ip link set VF netns POD`: the netdev leaves, driver and virtfn link stay."""
        for netdev in (self.vf(pf, number) / "net").iterdir():
            (netdev / "address").unlink()
            (netdev / "mtu").unlink()
            netdev.rmdir()

    def rename(self, name: str, new: str) -> None:
        """`ip link set NAME name NEW`: before Linux 6.2 not while it is up, and never to a name or altname in use.

        Source: dev_change_name in net/core/dev.c (EBUSY, EEXIST).
        """
        assert "UP" not in self.links[name]["flags"], "RTNETLINK answers: Device or resource busy"
        taken = [new in (other, *link.get("altnames", [])) for other, link in self.links.items()]
        assert not any(taken), "RTNETLINK answers: File exists"
        self.links[new] = self.links.pop(name)
        (self.folder / f"sys/class/net/{name}").rename(self.folder / f"sys/class/net/{new}")

    # -- what the kernel does on a write

    def write(self, path: str, value: str) -> None:
        self.written.append((path, value))
        if path.endswith("/sriov_numvfs"):
            return self._set_vfs(path.split("/")[4], int(value))
        if path.endswith("/drivers_probe"):
            return self._bind(value)
        if path.endswith("/driver/unbind"):
            return self._unbind(Path(self.path(path)).parent.parent)
        super().write(path, value)
        (self.folder / path.lstrip("/")).write_text(value)  # the kernel replaces; a file would keep a longer tail
        return None

    def _set_vfs(self, pf: str, count: int) -> None:
        device = self.folder / f"sys/class/net/{pf}/device"
        now = int((device / "sriov_numvfs").read_text())
        if now and count:
            raise OSError(errno.EBUSY, "Device or resource busy", str(device))
        if count > VF_LIMIT:
            raise OSError(errno.ERANGE, "Numerical result out of range", str(device))
        for virtfn in device.glob("virtfn*"):
            shutil.rmtree(virtfn.resolve())
            virtfn.unlink()
        for number in range(count):
            home = self.folder / f"sys/devices/{PFS[pf]}:10.{number}"
            home.mkdir()
            (home / "mac").write_text(f"5e:00:00:00:00:{number:02x}")
            (home / "physfn").symlink_to(device.resolve())
            (device / f"virtfn{number}").symlink_to(home)
            if (device / "sriov_drivers_autoprobe").read_text() == "1":
                self._bind(home.name)
        (device / "sriov_numvfs").write_text(str(count))

    def _bind(self, pci_address: str) -> None:
        home = self.folder / "sys/devices" / pci_address
        pf = next(pf for pf, bus in PFS.items() if pci_address.startswith(bus))
        netdev = home / "net" / f"{pf}v{pci_address[-1]}"
        netdev.mkdir(parents=True)
        (netdev / "address").write_text((home / "mac").read_text())
        (netdev / "mtu").write_text("1500")
        (home / "driver").symlink_to(self.folder / "sys/bus/pci/drivers/igbvf")

    def _unbind(self, home: Path) -> None:
        (home / "driver").unlink()
        for netdev in (home / "net").iterdir():
            for file in netdev.iterdir():
                file.unlink()
            netdev.rmdir()

    # -- what its programs do

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        line = " ".join(words)
        self.commands.append(line)
        self.stdin = stdin
        return self.answers.get(line) or self.answer(words) or self._kernel(words)

    def answer(self, words: tuple[str, ...]) -> Done | None:
        """What the programs of one kind of host do and print; None: what those of every host do."""
        del words
        return None

    def _kernel(self, words: tuple[str, ...]) -> Done:
        match words:
            case ("ip", "-j", "addr", "show"):
                return done(json.dumps([{"ifname": name, **found} for name, found in self.links.items()]))
            case ("ip", *options, "-batch", "-"):
                return self._ip_batch(self.stdin, force=bool(options))
            case ("modprobe", "-a", *names):
                for name in names:
                    self.file(f"/sys/module/{name}/refcnt", "0")
            case ("modprobe", "-r", name):
                (self.folder / f"sys/module/{name}/refcnt").unlink()
                (self.folder / f"sys/module/{name}").rmdir()
            case ("rdma", *rest):
                return self._rdma(*rest)
        return done()

    def _rdma(self, *words: str) -> Done:
        match words:
            case ("system", "set", "netns", mode):
                if self.busy_namespaces:
                    return Done(1, "", "error: Device or resource busy\n")
                self.file("/sys/module/ib_core/parameters/netns_mode", "Y" if mode == "shared" else "N")
            case ("link", "add", name, "type", "rxe", "netdev", netdev):
                if name in self.soft:
                    return Done(1, "", "error: File exists\n")
                self.soft[name] = netdev
                self.file(f"/sys/class/infiniband/{name}/parent", netdev)
            case ("link", "delete", name):
                del self.soft[name]
                (self.folder / f"sys/class/infiniband/{name}/parent").unlink()
                (self.folder / f"sys/class/infiniband/{name}").rmdir()
            case ("-j", "resource", "show"):
                found = [{"ifname": name, "qp": 1, "cm_id": 0, "ctx": int(name in self.opened)} for name in self.soft]
                return done(json.dumps(found))
        return done()

    def _ip_batch(self, lines: str, *, force: bool) -> Done:
        """Without -force it stops at the first line that fails; both end with 1 (seen with iproute2 6.1)."""
        said = ""
        for number, line in enumerate(lines.splitlines(), 1):
            self.commands.append(line)
            words = line.split()
            name = words[words.index("dev") + 1] if words[0] in ("link", "address") else "lo"
            if name in self.links:
                self._ip(words)
                continue
            said += f'Cannot find device "{name}"\nCommand failed -:{number}\n'
            if not force:
                break
        return Done(1 if said else 0, "", said)

    def _ip(self, words: list[str]) -> None:
        match words:
            case ["link", "set", "dev", name, "mtu", mtu]:
                self.links[name]["mtu"] = int(mtu)
            case ["link", "set", "dev", name, ("up" | "down") as state]:
                flags = set(self.links[name]["flags"]) - {"UP"}
                self.links[name]["flags"] = sorted(flags | ({"UP"} if state == "up" else set()))
            case ["link", "property", "del", "dev", name, "altname", altname]:
                self.links[name]["altnames"].remove(altname)
            case ["link", "set", "dev", name, "name", new]:
                self.rename(name, new)
            case ["link", "set", "dev", pf, "vf", number, "mac", mac]:
                (self.vf(pf, int(number)) / "mac").write_text(mac)
            case ["address", "replace", address, "dev", name]:
                if address not in addresses(self.links[name]):
                    self.links[name]["addr_info"].append(info(address))
            case ["address", "del", address, "dev", name]:
                kept = [one for one in self.links[name]["addr_info"] if f"{one['local']}/{one['prefixlen']}" != address]
                self.links[name]["addr_info"] = kept
            case _:
                raise AssertionError(f"ip does not know {words}")


def link(of: list[str]) -> dict[str, Any]:
    return {"mtu": 1500, "flags": ["BROADCAST", "MULTICAST", "UP"], "addr_info": [info(address) for address in of]}


def info(address: str) -> dict[str, Any]:
    local, _, length = address.partition("/")
    return {"family": "inet", "local": local, "prefixlen": int(length), "scope": "global"}


def addresses(found: dict[str, Any]) -> list[str]:
    return [f"{one['local']}/{one['prefixlen']}" for one in found["addr_info"]]
