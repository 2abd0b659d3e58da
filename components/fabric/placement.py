"""The ESXi hosts that the VMs really run on: verified after power-on, and watched for drift."""

import asyncio

from components.fabric import login
from components.fabric.vcenter.client import until
from components.fabric.vms.spread import drs_refusal, faults_of, places_of
from components.provider import log
from components.provider.base import Failure, Properties, Resource, changed
from stacks.base import LabError

DRS_S = 300
"""How long DRS may take to separate VMs: it runs at least every five minutes, and at each new
rule."""


class PlacementInputs(Properties):
    cluster: str
    machines: dict[str, str]
    """UUID by name."""
    apart: tuple[str, ...]
    """The workers that need an ESXi host of their own."""
    pinned: dict[str, str]
    """Pinned host by VM."""
    ruled: tuple[str, ...]
    """VMs with a DRS rule. Existing VMs have none, so nothing would move them."""
    patient: bool
    """Whether to wait for DRS; the simulated one acts at once."""


class PlacementState(PlacementInputs):
    places: dict[str, str]
    """ESXi host by machine."""
    faults: tuple[str, ...] = ()


class Placement(Resource[PlacementInputs, PlacementState]):
    """The ESXi hosts of all VMs. It waits for DRS and refuses what stays wrong, but moves nothing
    itself.
    """

    async def check(self, old: PlacementInputs | None, new: PlacementInputs) -> list[Failure]:
        """Refuses VMs that nothing would keep apart, before they are created."""
        apart = [name for name in new.apart if name in new.ruled]
        if len(apart) < 2 or all(name in new.pinned for name in apart):
            return []
        with login.configured_session(self.config) as vcenter:
            reason = drs_refusal(vcenter, new.cluster, apart)
        return [Failure("apart", reason)] if reason else []

    async def diff(self, old: PlacementState, new: PlacementInputs) -> list[str]:
        """Other VMs, or a placement that is no longer right."""
        names = []
        for name in changed(old, new):
            if name in {"machines", "apart", "pinned"}:
                names.append(name)
        for fault in old.faults:
            log.warn(fault)
        if old.faults:
            names.append("faults")
        return names

    async def create(self, new: PlacementInputs) -> PlacementState:
        """Waits until every VM is where it belongs."""
        return await asyncio.to_thread(self._settled, new)

    def identify(self, state: PlacementState) -> str:
        return f"placement-{state.cluster}"

    async def read(self, old: PlacementState) -> PlacementState:
        with login.configured_session(self.config) as vcenter:
            places = places_of(vcenter, old.machines)
        return old.model_copy(update={"places": places, "faults": tuple(_faults(places, old))})

    def _settled(self, new: PlacementInputs) -> PlacementState:
        moved_by_drs = new.model_copy(
            update={
                "machines": {
                    name: uuid for name, uuid in new.machines.items() if name in new.ruled
                },
                "apart": tuple(name for name in new.apart if name in new.ruled),
                "pinned": {name: host for name, host in new.pinned.items() if name in new.ruled},
            }
        )
        places: dict[str, str] = {}
        with login.configured_session(self.config) as vcenter:

            def right() -> bool:
                places.clear()
                places.update(places_of(vcenter, new.machines))
                return not _faults(places, moved_by_drs)

            bound_s = DRS_S if new.patient else 0
            until(
                right,
                bound_s,
                vcenter.say,
                f"{new.cluster}: waiting for DRS to move VMs to separate hosts",
            )
        if faults := _faults(places, new):
            raise LabError("\n".join(faults))
        return PlacementState(**dict(new), places=places)


def _faults(places: dict[str, str], declared: PlacementInputs) -> list[str]:
    return faults_of(places, list(declared.machines), declared.apart, declared.pinned)
