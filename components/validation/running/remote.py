"""What runs on a host for a test, as text, and what it answers. Values are arguments, never parts of a script."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from components.validation.planning.plan import End
from components.validation.planning.stages import VerbsPlan
from stacks.base import LabError

LISTENING = "@listening"
TAKEN = 98
"""Exit code: something else listens on the test's port."""
HELD = 75
"""Exit code: another run holds the lease."""
LEASE_FILE = "/run/rocelab-bench.lease"

BOUNDED = """
limit=$1 port=$2
shift 2
PATH=/usr/sbin:/sbin:$PATH
listens() { ss -Hltn "sport = :$port" | grep -q .; }
if [ "$port" != 0 ] && listens; then exit 98; fi
exec 3<&0
timeout -k 2 "$limit" "$@" </dev/null 3<&- &
run=$!
{ cat <&3; kill "$run"; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
if [ "$port" != 0 ]; then
  until listens; do
    if ! kill -0 "$run" 2>/dev/null; then port=0 && break; fi
    sleep 0.05
  done
  if [ "$port" != 0 ]; then echo @listening >&2; fi
fi
wait "$run"
code=$?
kill "$watch" 2>/dev/null
exit "$code"
"""
"""Runs a program that ends with its time, or when the session's input closes: then whoever started it is gone.

perftest's server waits for ever and takes exactly one connection, so the port is looked at and never probed.
"""

LEASE = """
exec 2>&1
if ! flock -n -E 75 "$2" sh -c 'echo "$1" >"$2"; echo held; cat >/dev/null' sh "$1" "$2"; then
  cat "$2"
  exit 75
fi
"""
"""Holds the host's lease until the session's input closes; the kernel drops a lock whose holder died."""

INSPECT = """
test=$1
shift
PATH=/usr/sbin:/sbin:$PATH
echo "version $("$test" --version 2>&1 | tr '\\n' ' ')"
while [ $# -gt 0 ]; do
  device=$1 interface=$2 port=/sys/class/infiniband/$1/ports/1
  shift 2
  echo "speed $device $(cat /sys/class/net/"$interface"/speed 2>/dev/null)"
  for vf in /sys/class/net/"$interface"/device/virtfn*/infiniband/*; do
    if [ -e "$vf" ]; then echo "vf $device ${vf##*/}"; fi
  done
  cd "$port" 2>/dev/null || continue
  grep -s . gid_attrs/types/* | sed "s|^gid_attrs/types/|type $device |; s|:| |"
  grep -s . gid_attrs/ndevs/* | sed "s|^gid_attrs/ndevs/|ndev $device |; s|:| |"
  grep -v 0000:0000:0000:0000:0000:0000:0000:0000 gids/* | sed "s|^gids/|gid $device |; s|:| |"
done
echo "qps $(rdma -j resource show qp 2>/dev/null)"
"""
"""Tells what a test needs to know of a host's ports, and who else uses them."""


def bounded(command: Sequence[str], limit_s: int, port: int = 0) -> str:
    """The remote command that runs a program within a time; with a port it says when the program listens."""
    return shlex.join(["sh", "-c", BOUNDED, "sh", str(limit_s), str(port), *command])


def lease(run_id: str, limit_s: int) -> str:
    """The remote command that holds the host's lease. As root: the file must serve every user of the lab."""
    return shlex.join(["sudo", "-n", "timeout", "-k", "2", str(limit_s), "sh", "-c", LEASE, "sh", run_id, LEASE_FILE])


def inspect(test: str, ends: Sequence[End]) -> str:
    """The remote command that looks at a host's ports."""
    words = [word for end in ends for word in (end.device, end.interface)]
    return shlex.join(["sh", "-c", INSPECT, "sh", test, *words])


def perftest(verbs: VerbsPlan, end: End, gid_index: int, port: int, server: IPv4Address | None = None) -> list[str]:
    """One end of a test; the client names its server.

    Without -R and -m the queue pair takes the port's active MTU and prints it, so the header proves the path MTU.
    """
    options = {
        "-d": end.device,
        "-x": gid_index,
        "-p": port,
        "-s": verbs.message_bytes,
        "-n": verbs.iterations,
        "-q": 1 if verbs.queue_pairs == "auto" else verbs.queue_pairs,
    }
    words = [str(word) for pair in options.items() for word in pair]
    return [verbs.test, *words, "-F", "--report_gbits", *([str(server)] if server else [])]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """What a host told about its ports."""

    version: str
    """perftest's, empty when it is not installed."""
    line_rate_gbit_s: dict[str, float]
    """By device; missing where the port does not tell."""
    gids: dict[tuple[str, int], tuple[str, str, str]]
    """Address, type and netdev by device and index."""
    users: tuple[str, ...]
    """Programs that have queue pairs on these ports or their VFs."""

    def gid_index(self, end: End) -> int:
        """The RoCE v2 entry that carries the PF's own address: mlx5 has it at 3 and soft-RoCE at 1, by chance.

        Raises:
            LabError: when there is none.
        """
        for (device, index), (address, kind, netdev) in sorted(self.gids.items()):
            mapped = IPv6Address(address).ipv4_mapped
            if (device, kind, netdev, mapped) == (end.device, "RoCE v2", end.interface, end.address):
                return index
        if not any(device == end.device for device, _ in self.gids):
            raise LabError(f"{end.node}: there is no RDMA device {end.device}")
        raise LabError(f"{end.node}: {end.device} has no RoCE v2 GID for {end.address} on {end.interface}")


def parse_ports(text: str) -> Ports:
    """Reads the answer of `INSPECT`."""
    version, qps = "", ""
    speeds: dict[str, float] = {}
    parts: dict[str, dict[tuple[str, int], str]] = {"gid": {}, "type": {}, "ndev": {}}
    devices: set[str] = set()
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        words = rest.split(" ", 2)
        if kind == "version" and "Version" in rest:
            version = rest.strip()
        elif kind == "qps":
            qps = rest
        elif kind == "speed":
            devices.add(words[0])
            if len(words) > 1 and words[1].isdecimal():  # -1 where the link is down or virtual
                speeds[words[0]] = int(words[1]) / 1000
        elif kind == "vf" and len(words) > 1:
            devices.add(words[1])
        elif kind in parts and len(words) == 3 and words[1].isdecimal():
            parts[kind][words[0], int(words[1])] = words[2]
    gids = {
        key: (address, parts["type"].get(key, ""), parts["ndev"].get(key, "")) for key, address in parts["gid"].items()
    }
    return Ports(version=version, line_rate_gbit_s=speeds, gids=gids, users=tuple(_users(qps, devices)))


def _users(qps: str, devices: set[str]) -> list[str]:
    """Kernel queue pairs have no pid; a process with some is using the port."""
    try:
        entries = json.loads(qps or "[]")
    except ValueError:
        return []
    found = {
        f"{e.get('comm', '?')} ({e['pid']}) on {e['ifname']}"
        for e in entries
        if e.get("ifname") in devices and e.get("pid")
    }
    return sorted(found)
