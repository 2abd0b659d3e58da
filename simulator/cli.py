"""Command `sim`: a lab without hardware, on loopback."""

import argparse
import fcntl
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from simulator import logs, tables
from simulator.lab import Simulator, simulator_of
from simulator.nodes.accelerator import VARIABLE
from simulator.nodes.access import SSH_CONFIG
from simulator.nodes.image import MORE_PACKAGES
from simulator.part import CHECKOUT, Part, Report, SimulatorError, announced, on_all
from simulator.vcenter.verbs import add_vcenter_verbs
from stacks.base import LabError

STATE = CHECKOUT / ".sim"
_EPILOG = f"""environment:
  {VARIABLE}=kvm|tcg   how guests run; default: KVM if a kernel boots with it, otherwise emulation
  {MORE_PACKAGES}    more packages of Debian for the nodes' image
  XDG_CACHE_HOME           its folder rocelab/nodes holds image and QEMU (default ~/.cache)
  TMPDIR                   needs 1.5 GB free while the image is built

Everything listens on 127.0.0.0/8 and unix sockets. State, keys and logs are in .sim/.
The simulator shows behavior; its figures say nothing about hardware."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    # `sim logs gpu01 | head` ends silently; a closed connection to a part is an error
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:
        if _nobody_reads():
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        print(f"error: a part of the simulator closed its connection ({error}); see sim status", file=sys.stderr)
        return 1


def _run(arguments: list[str] | None) -> int:
    options = _parser().parse_args(arguments)
    try:
        simulator = simulator_of(options.stack, STATE)
        code: int = options.act(simulator, options)
    except (SimulatorError, LabError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: started processes keep running; stop them with sim down", file=sys.stderr)
        return 130
    return code


def up(simulator: Simulator, options: argparse.Namespace) -> int:
    """Starts the switch, to which the nodes are cabled, then everything else in parallel."""
    begin = time.monotonic()
    first: list[Part] = [simulator.switch]
    parts = simulator.chosen(options.parts)
    with _alone():
        for wave in ([part for part in parts if part in first], [part for part in parts if part not in first]):
            _on_all(wave, lambda part, report: part.up(report), begin)
    print(f"sim up: everything answers after {time.monotonic() - begin:.1f} s")
    return 0


def status(simulator: Simulator, _: argparse.Namespace) -> int:
    """Prints a line per process; returns 1 unless all required ones run."""
    with ThreadPoolExecutor() as pool:
        lines = [line for found in pool.map(lambda part: part.status(), simulator.parts) for line in found]
    print(tables.of_states(lines))
    return 0 if all(line.state in ("running", "idle") for line in lines) else 1


def reset(simulator: Simulator, options: argparse.Namespace) -> int:
    """Resets everything to its first start: nodes to their snapshots, ports to the lab's configuration."""
    begin = time.monotonic()
    with _alone():
        parts = simulator.chosen(options.parts)
        # a kubelet that starts with its node must not see old content of the cluster
        _on_all([part for part in parts if part is simulator.plane], lambda part, report: part.down(report), begin)
        for part in parts:  # the switch first: the nodes' carriers follow its cables
            _on_all([part], lambda part, report: part.reset(report), begin)
    return 0


def down(simulator: Simulator, options: argparse.Namespace) -> int:
    """Stops all processes and keeps disks, keys and logs."""
    with _alone():
        chosen = simulator.chosen(options.parts) + ([] if options.parts else list(simulator.unneeded))
        _on_all(chosen, lambda part, report: part.down(report), time.monotonic())
    return 0


def build(simulator: Simulator, _: argparse.Namespace) -> int:
    """Makes the nodes' image."""
    boot = simulator.nodes.build(_reporter("nodes", time.monotonic()))
    print(f"QEMU {boot.qemu.version} ({boot.accelerator.kind}), image {boot.image.folder}")
    return 0


def ssh(simulator: Simulator, options: argparse.Namespace) -> int:
    """Logs in to a node with ssh."""
    simulator.nodes.node(options.node)
    command = ["ssh", "-F", str(simulator.nodes.folder / SSH_CONFIG), options.node, *options.command]
    os.execvp(command[0], command)  # noqa: S606  # ssh gets terminal and signals and sets the exit status


def show_logs(simulator: Simulator, options: argparse.Namespace) -> int:
    """Prints the end of a process's logs, or the names of all logs."""
    print(logs.read(simulator.state, options.name, options.lines) if options.name else logs.names(simulator.state))
    return 0


def switch_show(simulator: Simulator, _: argparse.Namespace) -> int:
    """Prints a line per port."""
    print(tables.of_ports(simulator.switch.client.show()))
    return 0


def switch_plug(simulator: Simulator, options: argparse.Namespace) -> int:
    """Unplugs or plugs a cable."""
    simulator.nodes.plug(options.node, options.nic, options.plugged)
    return 0


def switch_set(simulator: Simulator, options: argparse.Namespace) -> int:
    """Changes a port; options that are not given stay."""
    fields = ("mtu_bytes", "most_mtu_bytes", "tagged_vlans", "native_vlan", "loss_percent", "delay_ms")
    change = {name: getattr(options, name) for name in fields if getattr(options, name) is not None}
    machine = simulator.nodes.node(options.node).machine
    print(tables.of_ports([simulator.switch.client.set(machine.name, options.nic, **change)]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sim", description=__doc__, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(stack="lab")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, act: Callable[[Simulator, argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=text, description=f"{text}.")
        made.set_defaults(act=act)
        made.add_argument("--stack", help="the lab is that of Pulumi.<stack>.yaml (default: lab)", default="lab")
        return made

    for name, act, text in (
        ("up", up, "start what does not run, and wait until everything answers"),
        ("reset", reset, "reset everything to its first start, without stopping it"),
        ("down", down, "stop all processes; keep disks, keys and logs"),
    ):
        verb(name, act, text).add_argument(
            "parts", nargs="*", metavar="PART", help="only these: switch, nodes, plane, packages, vcenter"
        )
    verb("status", status, "print a line per process; fail unless all run")
    verb("build", build, "make the nodes' image in the cache (up does it too)")
    to_node = verb("ssh", ssh, "log in to a node, or run a command on it")
    to_node.add_argument("node", metavar="NODE")
    to_node.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    log = verb("logs", show_logs, "print the end of a process's logs; without NAME, list all logs")
    log.add_argument("name", nargs="?", metavar="NAME")
    log.add_argument("-n", "--lines", type=int, default=40, help="number of lines of each log (default: %(default)s)")
    add_vcenter_verbs(verb("vcenter", status, "inject faults into the simulated vCenter"))
    _add_switch_verbs(verb("switch", switch_show, "show the switch's ports, or inject faults"))
    return parser


def _add_switch_verbs(switch: argparse.ArgumentParser) -> None:
    verbs = switch.add_subparsers(metavar="show|pull|plug|set")
    verbs.add_parser("show", help="print a line per port (default)").set_defaults(act=switch_show)
    changing = []
    for name, plugged, text in (
        ("pull", False, "unplug a cable (NO-CARRIER on the node)"),
        ("plug", True, "plug it in"),
    ):
        changing.append(verbs.add_parser(name, help=text, description=text))
        changing[-1].set_defaults(act=switch_plug, plugged=plugged)
    change = verbs.add_parser(
        "set", help="change a port until sim reset", description="Changes a port until sim reset."
    )
    change.set_defaults(act=switch_set)
    change.add_argument("--mtu", dest="mtu_bytes", type=int, help="largest payload in bytes")
    change.add_argument("--most-mtu", dest="most_mtu_bytes", type=int, help="silently reduce larger MTUs to this one")
    change.add_argument("--vlans", dest="tagged_vlans", type=_vlans, help="tagged VLANs, such as 111,112; '' for none")
    change.add_argument("--native", dest="native_vlan", type=int, help="VLAN of untagged frames")
    change.add_argument("--loss", dest="loss_percent", type=float, help="percentage of frames lost in each direction")
    change.add_argument("--delay", dest="delay_ms", type=float, help="delay in ms in each direction")
    for each in (*changing, change):
        each.add_argument("node", metavar="NODE")
        each.add_argument("nic", metavar="NIC", help="interface of the node, such as enp5s0")


def _vlans(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def _on_all(parts: list[Part], act: Callable[[Part, Report], None], begin: float) -> None:
    on_all(parts, act, lambda part: _reporter(part.name, begin))


_PRINTING = threading.Lock()


def _reporter(name: str, begin: float) -> Report:
    """Prints progress with the part's name and the time since the command began."""

    def report(text: str) -> None:
        # finish the work even if nobody reads the output any more
        with _PRINTING, suppress(BrokenPipeError):
            print(f"{name:<14}{time.monotonic() - begin:6.1f} s  {text}", flush=True)

    return report


@contextmanager
def _alone() -> Iterator[None]:
    """Lets one command at a time start or stop things; the kernel releases the lock of a dead process."""
    STATE.mkdir(exist_ok=True)
    with (STATE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting = "waiting for another sim command in this checkout"
            print(waiting, flush=True)
            with announced(waiting, lambda text: print(text, flush=True)):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _nobody_reads() -> bool:
    """Whether the reader of our output has closed it."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    return any(state & select.POLLERR for _, state in output.poll(0))


if __name__ == "__main__":
    sys.exit(main())
