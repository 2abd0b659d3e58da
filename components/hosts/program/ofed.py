"""The NIC driver on a host: what is installed, whether it is built for the running kernel, and what
is loaded.
"""

import re
from typing import Dict, List, Set

from .carriers import refuse_what_carries_the_host
from .host import Host
from .machine import Machine, StepError, first_match
from .modules_built import MLX5, module_file, running_kernel

PACKAGES = (
    r"^(doca-|mlnx-|kmod-mlnx|ofed-scripts$|flexio|dpa-|dpacc|collectx|clusterkit$"
    r"|kmod-(iser|isert|srp|kernel-mft)|kernel-mft)"
)
"""Names of NVIDIA's packages, after "DOCA-Host Installation and Upgrade" (DOCA 3.2.1), removal of
an old version."""
BUILT = "for the running kernel"
AS_INSTALLED = "as installed"
CONSUMERS = (
    "nvme_rdma",
    "nvmet_rdma",
    "rpcrdma",
    "ib_iser",
    "ib_isert",
    "ib_srp",
    "ib_srpt",
    "ko2iblnd",
    "smc",
    "rds_rdma",
)
"""Modules that keep the RDMA stack busy for storage and sockets: openibd fails, or takes a mount
away."""
STACK = (
    "mlx5_core",
    "mlx5_ib",
    "mlx4_core",
    "mlx4_en",
    "mlx4_ib",
    "mlxfw",
    "mlxdevm",
    "mlx_compat",
    "auxiliary",
    "ib_core",
    "ib_uverbs",
    "ib_umad",
    "ib_cm",
    "ib_ucm",
    "iw_cm",
    "ib_ipoib",
    "rdma_cm",
    "rdma_ucm",
)
"""The modules that openibd unloads and loads. Any other module that holds one of them stops openibd
half-way."""


def ofed_version(machine: Machine) -> str:
    """Version of the vendor's driver that is installed; empty for the kernel's own."""
    done = machine.run("ofed_info", "-s")
    return version_in(done.out) if done.code == 0 else ""


def version_in(printed: str) -> str:
    """The version in `MLNX_OFED_LINUX-24.10-1.1.4.0:` or `OFED-internal-25.07-0.9.7:`; empty when
    there is none.
    """
    return first_match(r"-(\d+\.\d+-\d+(?:\.\d+)*)", printed)


def built(machine: Machine) -> str:
    """`BUILT`, or what there is instead of modules of the vendor's for the running kernel."""
    kernel = running_kernel(machine)
    states = set(dkms_states(machine.run("dkms", "status").out, kernel))
    if states == {"installed"}:
        return BUILT
    if states:
        return f"dkms for {kernel}: {', '.join(sorted(states))}"
    file = module_file(machine, MLX5)
    if not file.path or file.of_the_kernel:
        return f"not for {kernel}: {file.path or 'there is no ' + MLX5}"
    return BUILT


def dkms_states(printed: str, kernel: str) -> List[str]:
    """The states that dkms lists for the vendor's kernel modules; empty when it does not know them.

    Version 2 writes `mlnx-ofed-kernel, 5.8…, 5.4.0-150-generic, x86_64: installed`, version 3 a
    slash for the comma.
    """
    states = []
    for line in printed.splitlines():
        if re.match(r"mlnx-of(ed|a)[-_]kernel\b", line):
            what, _, state = line.partition(": ")
            states.append((what, state.split(" ")[0].strip()))
    here = [state for what, state in states if kernel in what.replace(",", " ").split()]
    return here or ["not built"] * bool(states)


def loaded(machine: Machine) -> str:
    """`AS_INSTALLED`, or which other driver runs."""
    if not machine.exists(f"/sys/module/{MLX5}"):
        return "not loaded"
    file, module = module_file(machine, MLX5), f"/sys/module/{MLX5}"
    srcversion, version = machine.read(module + "/srcversion"), machine.read(module + "/version")
    # srcversion is a hash over the module's sources; the kernel's own modules have no other version
    same = (
        srcversion == file.srcversion if srcversion and file.srcversion else version == file.version
    )
    return (
        AS_INSTALLED
        if same
        else f"{version or 'another'} is loaded, but {file.version or 'another'} is installed"
    )


def runs_inbox(machine: Machine) -> bool:
    """Whether the loaded module, if any, came with the kernel: others taint it."""
    return "O" not in machine.read(f"/sys/module/{MLX5}/taint")


def module_holders(machine: Machine) -> List[str]:
    """Modules outside the RDMA stack that hold a part of it: nvidia_peermem, another NIC's
    driver.
    """
    held: Dict[str, List[str]] = {}
    for module in STACK:
        for holder in machine.names(f"/sys/module/{module}/holders"):
            if holder not in (*STACK, *CONSUMERS):
                held.setdefault(holder, []).append(module)
    return [f"module {name} holds {' '.join(held[name])}" for name in sorted(held)]


def holders(host: Host) -> List[str]:
    """Why the driver cannot be restarted on this host; empty when a restart affects only the lab's
    links and VFs.
    """
    machine = host.machine
    host.forget()
    loaded = [name for name in CONSUMERS if machine.exists(f"/sys/module/{name}")]
    reasons = [f"module {name} is loaded" for name in loaded]
    reasons += module_holders(machine)
    opened = host.opened_devices()
    if opened is None:
        reasons.append("the processes that have RDMA devices open cannot be listed")
    elif opened:
        reasons.append(f"a process has {' '.join(sorted(opened))} open")
    ours = {pf["interface"] for pf in host.pfs}
    for pf in sorted(ours):
        reasons += [f"{pf} VF {index}: {reason}" for index, reason in host.uses(pf).items()]
    return reasons + _other_ports(host, ours)


def _other_ports(host: Host, ours: Set[str]) -> List[str]:
    """Why ports of the same driver cannot lose it."""
    vfs = {vf.netdev for pf in ours for vf in host.vfs(pf)}
    reasons = []
    for name in sorted(host.links()):
        if host.driver(name) != MLX5 or name in vfs:
            continue
        try:
            refuse_what_carries_the_host(host, [name])
        except StepError as error:
            reasons.append(error.reason)
            continue
        if name not in ours and host.is_up(name):
            reasons.append(f"{name} is up, also uses {MLX5}, and is not a rail of this lab")
    return reasons
