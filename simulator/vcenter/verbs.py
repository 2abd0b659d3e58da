"""The verbs of `sim vcenter`, which inject faults into the simulated vCenter."""

import argparse
from collections.abc import Callable

from simulator.lab import Simulator
from simulator.vcenter.control import SOCKET, Control
from simulator.vcenter.guests import obey

Act = Callable[[Simulator, argparse.Namespace], int]


def add_vcenter_verbs(vcenter: argparse.ArgumentParser) -> None:
    """Adds the verbs to the parser of `sim vcenter`."""
    verbs = vcenter.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, act: Act, text: str, *words: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=text, description=f"{text}.")
        made.set_defaults(act=act)
        for word in words:
            made.add_argument(word, metavar=word.upper())
        return made

    expire = verb("expire", _expire, "end all sessions, as an idle timeout does")
    expire.add_argument("method", nargs="?", metavar="METHOD", help="end only the session that next makes this call")
    slow = verb("slow", _slow, "delay a call, or the task that it starts", "method")
    slow.add_argument("seconds", type=float, metavar="SECONDS")
    refuse = verb("refuse", _refuse, "refuse a call for lack of a privilege", "method", "privilege")
    for limited in (slow, refuse):
        limited.add_argument("--times", type=int, default=0, help="number of affected calls (default: until cleared)")
    verb("clear", _clear, "end all faults")
    verb("calls", _calls, "print the number of calls by name")
    verb("guest", _guest, "start or stop a VM's guest (used by the vCenter, with a request on stdin)")
    host = verb("host", _host, "change a host as its administrator could", "name")
    host.add_argument("--version", help="ESXi version; before 8.0 it reports less about its NICs")
    host.add_argument("--build", help="ESXi build")
    host.add_argument("--nic", help="NIC for the next four options")
    host.add_argument("--driver-version", help="driver version of the NIC")
    host.add_argument("--pci", help="PCI address of the NIC; 0000:af:00.0 is far from the GPUs")
    host.add_argument("--link-mbit", type=int, help="link speed of the NIC; 0: no link")
    host.add_argument("--announced-mtu-bytes", type=int, help="MTU that the physical switch announces to the NIC")
    host.add_argument("--graphics-type", help="default graphics type, such as shared or sharedDirect")


def _expire(simulator: Simulator, options: argparse.Namespace) -> int:
    given = {"method": options.method, "times": 1} if options.method else {}
    _control(simulator).fault("expire", **given)
    return 0


def _slow(simulator: Simulator, options: argparse.Namespace) -> int:
    _control(simulator).fault("slow", method=options.method, seconds=options.seconds, times=options.times)
    return 0


def _refuse(simulator: Simulator, options: argparse.Namespace) -> int:
    given = {"method": options.method, "privilege": options.privilege, "times": options.times}
    _control(simulator).fault("refuse", **given)
    return 0


def _clear(simulator: Simulator, _: argparse.Namespace) -> int:
    _control(simulator).clear()
    return 0


def _calls(simulator: Simulator, _: argparse.Namespace) -> int:
    for name, count in sorted(_control(simulator).calls().items()):
        print(f"{count:6}  {name}")
    return 0


def _host(simulator: Simulator, options: argparse.Namespace) -> int:
    hardware = ("driver_version", "pci", "link_mbit", "announced_mtu_bytes")
    fields = ("version", "build", "nic", *hardware, "graphics_type")
    given = {name: getattr(options, name) for name in fields if getattr(options, name) is not None}
    _control(simulator).change_host(options.name, **given)
    return 0


def _guest(simulator: Simulator, _: argparse.Namespace) -> int:
    obey(simulator.nodes, simulator.state)
    return 0


def _control(simulator: Simulator) -> Control:
    return Control(simulator.state.absolute() / "vcenter" / SOCKET)
