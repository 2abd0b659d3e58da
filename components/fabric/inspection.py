"""The preflight as a resource: it reads hosts and switches at each run, and everything else waits
for it.

What it read is in the state, so that a preview shows a host that has changed.
"""

from collections.abc import Sequence

from pydantic import Field

from components.fabric import login
from components.fabric.preflight.claims import (
    adapters_made,
    names_made,
    refused_adapters,
    refused_mtus,
    refused_names,
    refused_supplies,
)
from components.fabric.preflight.judge import judge, unlossless
from components.fabric.preflight.survey import Scope, survey
from components.fabric.vcenter.client import VCenter
from components.provider import log
from components.provider.base import Failure, Properties, Resource, changed
from stacks.base import LabError
from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.machines import ExistingMachine
from stacks.nodes import VsphereVm

MOST_LINES = 12


class InspectionInputs(Properties):
    """The program gives the first two; each run reads the others."""

    datacenter: str
    cluster: str
    hosts: dict[str, str] = Field(default_factory=dict)
    """A line per ESXi host."""
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    """Names that this stack creates. If they exist, they belong to it."""
    adapters: tuple[str, ...] = ()
    """The vmkernel adapters that this stack creates, as `host: address`."""


class Inspection(Resource[InspectionInputs, InspectionInputs]):
    """What the preflight read of hosts and switches. It changes nothing."""

    async def complete(
        self, old: InspectionInputs | None, new: InspectionInputs
    ) -> InspectionInputs:
        """Runs the preflight, also in a preview."""
        fabric = self.config.lab.fabric
        if fabric is None:
            raise LabError("the stack's lab has no fabric")
        with login.configured_session(self.config) as vcenter:
            return look(self.config.lab, fabric, vcenter, old or new)

    async def check(self, old: InspectionInputs | None, new: InspectionInputs) -> list[Failure]:
        """Refuses what the preflight faults if `fabric.preflight` is `enforce`."""
        for warning in new.warnings:
            log.warn(warning)
        fabric = self.config.lab.fabric
        if fabric is not None and fabric.preflight == "enforce":
            if new.faults:
                return [Failure("fabric", _fault_text(new.faults))]
            return []
        for fault in new.faults:
            log.warn(fault)
        return []

    async def diff(self, old: InspectionInputs, new: InspectionInputs) -> list[str]:
        """Shows hosts that changed since the last run."""
        for host, line in new.hosts.items():
            before = old.hosts.get(host, line)
            if before != line:
                log.info(f"{host}: {before} => {line}")
        return changed(old, new)

    async def create(self, new: InspectionInputs) -> InspectionInputs:
        return new

    def identify(self, state: InspectionInputs) -> str:
        return f"{state.datacenter}/{state.cluster}"


def look(lab: Lab, fabric: Fabric, vcenter: VCenter, old: InspectionInputs) -> InspectionInputs:
    """Runs the preflight; `old` is what the last run read and made."""
    names = sorted({host.name for switch in fabric.switches for host in switch.hosts})
    vgpu = hosts_with_vgpus(lab, names)
    scope = Scope(
        datacenter=fabric.datacenter,
        cluster=fabric.cluster,
        hosts=names,
        machines=lab.bitfusion is not None
        or any(isinstance(node, VsphereVm) for node in lab.nodes),
        gpus=bool(vgpu),
    )
    facts = survey(vcenter, scope)
    verdict = judge(fabric.switches, facts, {rail.name: rail.mtu_bytes for rail in lab.rails}, vgpu)
    claims = [
        *refused_names(fabric.switches, facts, frozenset(old.made)),
        *refused_adapters(fabric.switches, facts, frozenset(old.adapters)),
        *refused_mtus(fabric.switches, facts),
        *refused_supplies(lab, facts),
    ]
    warnings = [*verdict.warnings, *unlossless(lab)]
    return InspectionInputs(
        datacenter=fabric.datacenter,
        cluster=fabric.cluster,
        hosts=dict(verdict.hosts),
        faults=(*claims, *verdict.faults),
        warnings=tuple(warnings),
        made=tuple(names_made(fabric.switches)),
        adapters=tuple(adapters_made(fabric.switches)),
    )


def hosts_with_vgpus(lab: Lab, hosts: list[str]) -> frozenset[str]:
    """The hosts that may get a VM with a vGPU: its pinned host, or all if the cluster places it.

    An existing VM stays where it is, and its host is compared with the lab file.
    """
    host_names: set[str] = set()
    for node in lab.vms:
        if node.vgpu is None:
            continue
        if node.machine.host:
            host_names.add(node.machine.host)
        elif not isinstance(node.machine, ExistingMachine):
            host_names.update(hosts)
    return frozenset(host_names)


def _fault_text(faults: Sequence[str]) -> str:
    rest = len(faults) - MOST_LINES
    lines = [f"  {fault}" for fault in faults[:MOST_LINES]] + (
        [f"  and {rest} more"] if rest > 0 else []
    )
    closing = "Nothing was changed. To continue anyway, set fabric.preflight: warn."
    return "\n".join(["the fabric is not fit for PVRDMA:", *lines, closing])
