"""What the guides want equal on all workers, and a sentence for each thing in which hosts differ. Pure."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping

from components.fabric.preflight.facts import HostFacts
from components.fabric.vcenter.nics import Nic
from stacks.words import some

Kinds = Callable[[HostFacts, Nic], str]

ALIKE: Mapping[str, Kinds] = {
    "ESXi": lambda host, _: f"{host.version} build {host.build}",
    "model": lambda host, _: host.model,
    "driver of the uplink": lambda _, nic: nic.driver,
    "driver version of the uplink": lambda _, nic: nic.driver_version,
    "firmware of the uplink": lambda _, nic: nic.firmware,
    "link speed of the uplink": lambda _, nic: f"{nic.speed_mbit} Mbit/s",
    "PCIe placement of the uplink": lambda _, nic: nic.pci,
    "vGPU driver": lambda host, _: host.vgpu_driver,
    "graphics type": lambda host, _: host.graphics,
}
ALIKE_WITH_GPUS: Mapping[str, Kinds] = {
    "PCIe placement of the GPUs": lambda host, _: ", ".join(sorted(host.gpu_graphics)),
    "way from the uplink to the GPUs": lambda host, nic: host.pcie.ways(nic.pci, host.gpu_graphics),
    "graphics type of the GPUs now": lambda host, _: ", ".join(sorted(set(host.gpu_graphics.values()))),
}
"""Of hosts that may get a machine with a vGPU; another may have whatever GPUs it likes."""


def unlike(switch: str, chosen: Mapping[str, tuple[HostFacts, Nic]], vgpu: Collection[str]) -> Iterator[str]:
    """What is not the same on all hosts of a switch, with the hosts that have each; what fewest have stands first.

    Args:
        switch: its name, for the sentence.
        chosen: each host with its uplink on that switch.
        vgpu: the hosts that may get a machine with a vGPU.
    """
    yield from _differing(switch, ALIKE, chosen)
    yield from _differing(switch, ALIKE_WITH_GPUS, {name: one for name, one in chosen.items() if name in vgpu})


def _differing(switch: str, alike: Mapping[str, Kinds], chosen: Mapping[str, tuple[HostFacts, Nic]]) -> Iterator[str]:
    for what, kind in alike.items():
        groups: dict[str, list[str]] = defaultdict(list)
        for name, (host, nic) in chosen.items():
            groups[kind(host, nic)].append(name)
        if len(groups) > 1:
            ordered = sorted(groups.items(), key=lambda group: (len(group[1]), group[0]))
            told = "; ".join(f"{value or 'none or not told'} on {some(names, 3)}" for value, names in ordered)
            yield f"{switch}: {what} is not the same on all hosts: {told}"
