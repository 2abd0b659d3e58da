"""The ESXi hosts that the VMs really run on: verified after power-on, and watched for drift.

The state contains the path of this module, so it must not move.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    UpdateResult,
)

from components.fabric.login import VCenterProvider
from components.fabric.props import Props, string_map, strings
from components.fabric.vcenter.client import VCenter, until
from components.fabric.vms.spread import drs_refusal, faults_of, places_of
from stacks.base import LabError

DECLARED = ("machines", "apart", "pinned")
DRS_S = 300
"""How long DRS may take to separate VMs: it runs at least every five minutes, and at each new rule."""


class PlacementProvider(VCenterProvider):
    """Waits for DRS, and refuses what stays wrong. It moves nothing itself."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Refuses VMs that nothing would keep apart, before they are created."""
        pinned, ruled = string_map(news, "pinned"), strings(news, "ruled")
        apart = [name for name in strings(news, "apart") if name in ruled]
        if len(apart) < 2 or all(name in pinned for name in apart):
            return CheckResult(news, [])
        with self._vcenter() as vcenter:
            said = drs_refusal(vcenter, str(news["cluster"]), apart)
        return CheckResult(news, [CheckFailure("apart", said)] if said else [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Other VMs, or a placement that is no longer right."""
        faults = strings(_olds, "faults")
        for fault in faults:
            pulumi.log.warn(fault)
        return DiffResult(changes=bool(faults) or any(_olds.get(key) != _news.get(key) for key in DECLARED))

    def create(self, props: Props) -> CreateResult:
        """Waits until every VM is where it belongs."""
        return CreateResult(f"placement-{props['cluster']}", self._settled(props))

    def read(self, id_: str, props: Props) -> ReadResult:
        with self._vcenter() as vcenter:
            return ReadResult(id_, {**props, **_seen(vcenter, props)})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(self._settled(_news))

    def _settled(self, props: Props) -> Props:
        with self._vcenter() as vcenter:
            seen: Props = {}

            ruled = set(strings(props, "ruled"))
            of_drs = {**props, "apart": [name for name in strings(props, "apart") if name in ruled]}
            of_drs |= {
                key: {n: v for n, v in string_map(props, key).items() if n in ruled} for key in ("machines", "pinned")
            }

            def right() -> bool:
                seen.update(_seen(vcenter, props))
                return not _faults(string_map(seen, "places"), of_drs)

            waiting = f"{props['cluster']}: waiting for DRS to move VMs to separate hosts"
            until(right, DRS_S if props["patient"] else 0, vcenter.say, waiting)
            if seen["faults"]:
                raise LabError("\n".join(strings(seen, "faults")))
            return {**props, **seen}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementArgs:
    cluster: str
    machines: Mapping[str, pulumi.Input[str]]
    """UUID by name."""
    apart: Sequence[str]
    """The workers that need an ESXi host of their own."""
    pinned: Mapping[str, str]
    """Pinned host by VM."""
    ruled: Sequence[str]
    """VMs with a DRS rule. Adopted VMs have none, so nothing would move them."""
    patient: bool
    """Whether to wait for DRS; the simulated one acts at once."""


class Placement(Resource, module="fabric", name="Placement"):
    """The ESXi hosts of all VMs."""

    places: pulumi.Output[Mapping[str, str]]
    """ESXi host by machine."""

    def __init__(self, name: str, args: PlacementArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        asked = {
            "cluster": args.cluster,
            "machines": dict(args.machines),
            "apart": list(args.apart),
            "pinned": dict(args.pinned),
            "ruled": list(args.ruled),
            "patient": args.patient,
        }
        super().__init__(PlacementProvider(), name, {**asked, "places": None, "faults": None}, opts)


def _seen(vcenter: VCenter, props: Props) -> Props:
    places = places_of(vcenter, string_map(props, "machines"))
    return {"places": places, "faults": _faults(places, props)}


def _faults(places: Mapping[str, str], props: Props) -> list[str]:
    return faults_of(places, list(string_map(props, "machines")), strings(props, "apart"), string_map(props, "pinned"))
