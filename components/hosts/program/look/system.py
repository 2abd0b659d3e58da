"""The machine, its operating system, and the services that matter to RDMA."""

import ctypes
import re
from typing import List

from ..distribution import OS_RELEASE, Distribution, distribution_in
from ..machine import first_match
from ..modules_built import PEERMEM_MODULES, module_file_in
from .gpu import NVIDIA, xids
from .leaves import Json, Leaf, UnknownError, file_leaves, matched, printed, program_leaf, read
from .pci import acs_bridges
from .read_only import ReadOnly

MODULES = (
    "mlx5_core",
    "mlx5_ib",
    "mlx4_core",
    "ib_core",
    "bnxt_en",
    "bnxt_re",
    "ice",
    "irdma",
    "igb",
    "vmxnet3",
)
GPU_MODULES = ("nvidia", *PEERMEM_MODULES)
OF_INTEREST = re.compile(
    r"^(ib_|rdma|mlx|iw_|nvidia|nv_|bnxt|irdma|rpcrdma|nvme_rdma|nvmet_rdma|ko2iblnd|smc|rds|"
    r"gdrdrv|siw)"
)
ARGUMENTS = re.compile(
    r"^(iommu|intel_iommu|amd_iommu|hugepages|hugepagesz|default_hugepagesz|pci|pcie_\w+|numa\w*)="
)
REBOOT = "/run/reboot-required"
"""The mark that packages of Debian's family leave when a reboot is due."""
KUBELET = "/var/lib/kubelet"
KUBELET_FILES = (f"{KUBELET}/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet")
KERNEL_LOG = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "cat", "-n", "5000")
NIC_LINE = re.compile(r"\b(mlx[45]_\w+|bnxt_\w+|ice|irdma|igb)\b", re.IGNORECASE)
COMPLAINT = re.compile(
    r"health|compromised|insufficient power|unplugged|high temp|fatal|timeout|assert|syndrome|bad "
    r"cable|link down",
    re.IGNORECASE,
)
"""After mlx5's messages (kernel, drivers/net/ethernet/mellanox/mlx5/core/{health,events}.c)."""
MOST_COMPLAINTS = 20
NO_LOG = "the kernel's log cannot be read; without root this is expected"
CONTAINERD = ("systemctl", "show", "containerd.service", "-p", "LoadState", "-p", "LimitMEMLOCK")
FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"
UNLIMITED = ("infinity", str(2**64 - 1))
SYNCHRONIZED_US = 16_000_000
"""Largest error of a synchronized clock, as in timedatectl (systemd, `ntp_synced`)."""
MAXERROR_AT, TIMEX_BYTES = 24, 512
"""Place of `maxerror` in struct timex of 64-bit Linux (adjtimex(2))."""
OWNER = "/var/lib/rocelab/owner"


def leaves(machine: ReadOnly) -> List[Leaf]:
    text = ReadOnly.text
    dmi, cpus, kernel = "/sys/class/dmi/id", "/sys/devices/system/cpu", "/proc/sys/kernel"
    meminfo = "/proc/meminfo"
    return [
        *file_leaves(
            machine,
            {
                "hostname": (f"{kernel}/hostname", text),
                "kernel": (f"{kernel}/osrelease", text),
                "boot_id": (f"{kernel}/random/boot_id", text),
                "vendor": (f"{dmi}/sys_vendor", text),
                "product": (f"{dmi}/product_name", text),
                "numa_nodes": ("/sys/devices/system/node/online", _count),
                "kernel_arguments": ("/proc/cmdline", _arguments),
                "rdma_namespaces": ("/sys/module/ib_core/parameters/netns_mode", _namespaces),
                "modules": ("/proc/modules", _modules),
            },
        ),
        Leaf("swap_kib", meminfo, lambda: _meminfo_kib(machine, "SwapTotal")),
        Leaf("os", OS_RELEASE, lambda: _os(machine)),
        Leaf("drivers", "/sys/module, modinfo", lambda: drivers(machine)),
        Leaf("gpu_driver", NVIDIA, lambda: _gpu_driver(machine)),
        Leaf("fabric_manager", f"{FABRIC_MANAGER} --version", lambda: _fabric_manager(machine)),
        program_leaf(machine, "containerd_memlock", " ".join(CONTAINERD), containerd_memlock),
        Leaf("reboot_required", REBOOT, lambda: _reboot_required(machine)),
        Leaf("governors", f"{cpus}/cpufreq", lambda: _governors(machine, f"{cpus}/cpufreq")),
        Leaf("clock_synchronized", "adjtimex", clock_is_synchronized),
        Leaf(
            "kubelet_topology_policy", f"{KUBELET}/config.yaml", lambda: _topology_policy(machine)
        ),
        Leaf("kernel_complaints", " ".join(KERNEL_LOG), lambda: complaints(_log(machine))),
        Leaf("xids", " ".join(KERNEL_LOG), lambda: xids(_log(machine))),
        Leaf("acs_bridges", "PCI configuration space", lambda: acs_bridges(machine)),
        Leaf("rocelab_owner", OWNER, lambda: machine.text(OWNER) if machine.exists(OWNER) else ""),
    ]


def uptime_s(machine: ReadOnly, path: str = "/proc/uptime") -> float:
    return float(machine.text(path).split()[0])


def drivers(machine: ReadOnly) -> List[Json]:
    """Each loaded module beside the file that would be loaded next."""
    modules = []
    for name in (*MODULES, *GPU_MODULES):
        folder = f"/sys/module/{name}"
        if machine.exists(f"{folder}/refcnt"):  # a module that is built into the kernel has none
            files = {
                "loaded": (f"{folder}/version", _version),
                "loaded_srcversion": (f"{folder}/srcversion", ReadOnly.text),
            }
            leaves = file_leaves(machine, files)
            for leaf, take in ON_DISK.items():
                leaves.append(program_leaf(machine, leaf, f"modinfo {name}", take))
            modules.append({"module": name, **read(leaves)})
    return modules


def _version(machine: ReadOnly, path: str) -> str:
    """The kernel's own modules have the kernel's version."""
    return machine.read(path) or machine.text("/proc/sys/kernel/osrelease")


def version_on_disk(printed: str) -> str:
    """For a module without a version that of the kernel it was built for."""
    file = module_file_in(printed)
    if not (file.version or file.kernel):
        raise UnknownError("modinfo prints no version")
    return file.version or file.kernel


def srcversion_on_disk(printed: str) -> str:
    file = module_file_in(printed)
    if not file.srcversion:
        raise UnknownError("modinfo prints no srcversion")
    return file.srcversion


ON_DISK = {"on_disk": version_on_disk, "on_disk_srcversion": srcversion_on_disk}


def _count(machine: ReadOnly, path: str) -> int:
    """How many are in a list such as `0-3,8-11`."""
    total = 0
    for part in machine.text(path).split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def _arguments(machine: ReadOnly, path: str) -> List[str]:
    return [word for word in machine.text(path).split() if ARGUMENTS.match(word)]


def _namespaces(machine: ReadOnly, path: str) -> str:
    """The parameter says whether RDMA devices are shared between network namespaces."""
    return {"Y": "shared", "N": "exclusive"}[machine.text(path)]


def _modules(machine: ReadOnly, path: str) -> List[str]:
    return sorted(
        line.split()[0] for line in machine.text(path).splitlines() if OF_INTEREST.match(line)
    )


def _meminfo_kib(machine: ReadOnly, key: str) -> int:
    return int(matched(rf"^{key}:\s+(\d+) kB", machine.text("/proc/meminfo"), f"it has no {key}"))


def _release(machine: ReadOnly) -> Distribution:
    return distribution_in(machine.text(OS_RELEASE))


def _os(machine: ReadOnly) -> str:
    name = _release(machine).pretty_name
    if not name:
        raise UnknownError("it has no PRETTY_NAME")
    return name


def _gpu_driver(machine: ReadOnly) -> str:
    if not machine.exists(NVIDIA):
        return ""
    return matched(
        r"Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", machine.text(NVIDIA), "it names no version"
    )


def _fabric_manager(machine: ReadOnly) -> str:
    if not machine.exists(FABRIC_MANAGER):
        return ""
    return matched(
        r"(\d+\.\d+\.\d+)",
        printed(machine.run(FABRIC_MANAGER, "--version")),
        "it names no version",
    )


def containerd_memlock(text: str) -> str:
    """The limit of locked memory that systemd gives to containerd; empty without containerd."""
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    if values.get("LoadState") == "not-found":
        return ""
    limit = values.get("LimitMEMLOCK", "")
    if not limit:
        raise UnknownError("systemctl reports no limit")
    return "infinity" if limit in UNLIMITED else limit


def _reboot_required(machine: ReadOnly) -> bool:
    if machine.exists(REBOOT):
        return True
    if _release(machine).family != "debian":
        raise UnknownError("this distribution's packages do not record it")
    return False


def _governors(machine: ReadOnly, folder: str) -> List[str]:
    policies = [name for name in machine.names(folder) if name.startswith("policy")]
    return sorted({machine.text(f"{folder}/{name}/scaling_governor") for name in policies})


def clock_is_synchronized() -> bool:
    """The kernel's state of the clock, read without setting anything: timedatectl would start a
    service.
    """
    clock = ctypes.create_string_buffer(TIMEX_BYTES)  # modes 0: only read
    if ctypes.CDLL(None, use_errno=True).adjtimex(clock) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex fails")
    return ctypes.c_long.from_buffer(clock, MAXERROR_AT).value < SYNCHRONIZED_US


def _topology_policy(machine: ReadOnly) -> str:
    if not machine.exists(KUBELET):
        return ""
    for path in KUBELET_FILES:
        flag = first_match(r"--topology-manager-policy[= ]([\w-]+)", machine.read(path))
        if flag:
            return flag
    config = machine.text(f"{KUBELET}/config.yaml")
    return first_match(r"^topologyManagerPolicy:\s*[\"']?([\w-]+)", config) or "none"


def _log(machine: ReadOnly) -> str:
    text = printed(machine.once(*KERNEL_LOG))
    if not text.strip():
        raise UnknownError(NO_LOG)
    return text


def complaints(text: str) -> List[str]:
    """The last lines in which a NIC reports its health, cable or power."""
    lines = []
    for line in text.splitlines():
        if NIC_LINE.search(line) and COMPLAINT.search(line):
            lines.append(line.strip()[:200])
    return lines[-MOST_COMPLAINTS:]
