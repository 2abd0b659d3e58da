"""The preflight as a resource: it reads hosts and switches at each run, and everything else waits for it.

What it saw is in the state, so that a preview shows a host that has changed. The state contains the path of this
module, so it must not move.
"""

from dataclasses import asdict

import pulumi
from pulumi.dynamic import CheckFailure, CheckResult, CreateResult, DiffResult, Resource, UpdateResult

from components.fabric.login import VCenterProvider
from components.fabric.preflight.claims import (
    adapters_made,
    names_made,
    refused_adapters,
    refused_mtus,
    refused_names,
    refused_supplies,
    refused_versions,
)
from components.fabric.preflight.judge import judge, other_branches, unlossless
from components.fabric.preflight.survey import Scope, kept, survey, without_vmnic
from components.fabric.props import Props, mapping, strings
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.privileges import needs_of, privileges
from components.ssh.credentials import configured_lab
from stacks.base import LabError
from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.machines import ExistingMachine
from stacks.nodes import VsphereVm

SEEN = ("hosts", "faults", "warnings")
MADE = ("made", "adapters")
"""What this stack creates: names, and vmkernel adapters by address. If they exist, they belong to it."""
KEPT = "packages"
"""What need not be read again from a host that has not restarted."""
MOST_LINES = 12


class InspectionProvider(VCenterProvider):
    """Reads hosts and switches at each run, also in a preview, and changes nothing."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Runs the preflight, and refuses its faults if `fabric.preflight` is `enforce`."""
        lab = configured_lab(self._setting)
        if lab.fabric is None:
            raise LabError("the stack's lab has no fabric")
        with self._vcenter() as vcenter:
            seen = look(lab, lab.fabric, vcenter, _olds)
        for warning in [
            *strings(seen, "warnings"),
            *(strings(seen, "faults") if lab.fabric.preflight == "warn" else []),
        ]:
            pulumi.log.warn(warning)
        failures = []
        if lab.fabric.preflight == "enforce" and (faults := strings(seen, "faults")):
            failures = [CheckFailure("fabric", _fault_text(faults))]
        return CheckResult({**news, **seen}, failures)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Shows hosts that changed since the last run."""
        for host, line in mapping(_news.get("hosts")).items():
            if (before := mapping(_olds.get("hosts")).get(host)) not in (None, line):
                pulumi.log.info(f"{host}: {before} => {line}")
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in (*SEEN, *MADE, KEPT, "datacenter")))

    def create(self, props: Props) -> CreateResult:
        return CreateResult(f"{props['datacenter']}/{props['cluster']}", props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(_news)


class Inspection(Resource, module="fabric", name="Inspection"):
    """What the preflight found."""

    hosts: pulumi.Output[dict[str, str]]
    """A line per ESXi host."""
    faults: pulumi.Output[list[str]]
    warnings: pulumi.Output[list[str]]

    def __init__(self, name: str, fabric: Fabric, opts: pulumi.ResourceOptions | None = None) -> None:
        props = {
            "datacenter": fabric.datacenter,
            "cluster": fabric.cluster,
            **dict.fromkeys((*SEEN, *MADE, KEPT)),
        }
        super().__init__(InspectionProvider(), name, props, opts)


def look(lab: Lab, fabric: Fabric, vcenter: VCenter, olds: Props) -> Props:
    """Runs the preflight; `olds` are the properties of the last run, empty before the first."""
    names = sorted({host.name for switch in fabric.switches for host in switch.hosts})
    vgpu = hosts_with_vgpus(lab, names)
    needs = needs_of(lab, fabric)
    scope = Scope(
        datacenter=fabric.datacenter,
        cluster=fabric.cluster,
        hosts=names,
        privileges={where: privileges(needs, where) for where in ("datacenter", "cluster", "host")},
        machines=lab.bitfusion is not None or any(isinstance(node, VsphereVm) for node in lab.nodes),
        gpus=bool(vgpu),
        packages=kept(olds.get(KEPT)),
    )
    facts = survey(vcenter, scope)
    verdict = judge(fabric.switches, facts, {rail.name: rail.mtu_bytes for rail in lab.rails}, vgpu)
    portless = without_vmnic(vcenter, [facts.hosts[name] for name in verdict.unlinked]) if verdict.unlinked else ()
    claims = [
        *refused_names(fabric.switches, facts, frozenset(strings(olds, "made"))),
        *refused_adapters(fabric.switches, facts, frozenset(strings(olds, "adapters"))),
        *refused_mtus(fabric.switches, facts),
        *refused_versions(fabric.switches, facts),
        *refused_supplies(lab, facts),
    ]
    return {
        "hosts": dict(verdict.hosts),
        "faults": [*claims, *verdict.faults, *portless],
        "warnings": [
            *verdict.warnings,
            *unlossless(lab),
            *other_branches(lab, [facts.hosts[name] for name in sorted(vgpu & facts.hosts.keys())]),
        ],
        "made": names_made(fabric.switches),
        "adapters": adapters_made(fabric.switches),
        KEPT: {
            name: asdict(host.packages)
            for name, host in sorted(facts.hosts.items())
            if host.packages is not None and host.packages.lasting
        },
    }


def hosts_with_vgpus(lab: Lab, hosts: list[str]) -> frozenset[str]:
    """The hosts that may get a VM with a vGPU: its pinned host, or all if the cluster places it.

    An adopted VM stays where it is, and its host is checked at the adoption.
    """
    found: set[str] = set()
    for node in lab.vms:
        if node.vgpu is not None:
            anywhere = set() if isinstance(node.machine, ExistingMachine) else set(hosts)
            found |= {node.machine.host} if node.machine.host else anywhere
    return frozenset(found)


def _fault_text(faults: list[str]) -> str:
    rest = len(faults) - MOST_LINES
    lines = [f"  {fault}" for fault in faults[:MOST_LINES]] + ([f"  and {rest} more"] if rest > 0 else [])
    closing = "Nothing was changed. To continue anyway, set fabric.preflight: warn."
    return "\n".join(["the fabric is not fit for PVRDMA:", *lines, closing])
