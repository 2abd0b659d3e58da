"""The physical NIC of an ESXi host that becomes an uplink: found once, then watched for drift.

The state contains the path of this module, so it must not move.
"""

from dataclasses import dataclass

import pulumi
from pulumi.dynamic import (
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    UpdateResult,
)

from components.fabric.login import VCenterProvider
from components.fabric.props import Props
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.nics import choose
from stacks.base import LabError
from stacks.fabric import UplinkChoice

DECLARED = ("host", "switch", "choice", "rdma")


class UplinkProvider(VCenterProvider):
    """Finds the NIC, and changes nothing."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another choice, or a NIC that no longer fits. Refuses a change of the NIC under running VMs."""
        changes = bool(_olds.get("lost")) or any(_olds.get(key) != _news.get(key) for key in DECLARED)
        if changes:
            with self._vcenter() as vcenter:
                if said := refusal(vcenter, _olds, _news):
                    raise LabError(said)
        return DiffResult(changes=changes)

    def create(self, props: Props) -> CreateResult:
        return CreateResult(f"{props['switch']}/{props['host']}", self._found(props))

    def read(self, id_: str, props: Props) -> ReadResult:
        """Keeps the NIC, and records why it no longer fits."""
        try:
            with self._vcenter() as vcenter:
                said = lost(vcenter, props)
        except LabError as error:
            said = str(error)
        return ReadResult(id_, {**props, "lost": said})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(self._found(_news))

    def _found(self, props: Props) -> Props:
        with self._vcenter() as vcenter:
            return {**{key: props[key] for key in DECLARED}, **find(vcenter, props), "lost": ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class UplinkArgs:
    host: str
    switch: str
    choice: UplinkChoice
    rdma: bool
    """Whether the NIC needs an RDMA device."""


class Uplink(Resource, module="fabric", name="Uplink"):
    """The NIC of one ESXi host for one switch."""

    device: pulumi.Output[str]
    """Such as `vmnic4`."""
    mac: pulumi.Output[str]

    def __init__(self, name: str, args: UplinkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        choice = args.choice.model_dump_json(exclude_none=True)
        asked = {"host": args.host, "switch": args.switch, "choice": choice, "rdma": args.rdma}
        super().__init__(UplinkProvider(), name, {**asked, "device": None, "mac": None, "lost": None}, opts)


def lost(vcenter: VCenter, props: Props) -> str:
    """Why the NIC in the state no longer fits; empty when it does.

    Raises:
        LabError: when no NIC fits any more.
    """
    now = find(vcenter, props)
    if now["mac"] != props.get("mac"):
        return f"{now['device']} ({now['mac']}) matches it now"
    on_switch = vcenter.uplinks(vcenter.host(str(props["host"])), str(props["switch"]))
    if on_switch in ((), (now["device"],)):  # a host that is no member of the switch has none
        return ""
    return f"{props['switch']} has {', '.join(on_switch)} instead"


def refusal(vcenter: VCenter, olds: Props, news: Props) -> str:
    """Why the uplink cannot change now; empty when it can. VMware's KB 328676: only with the VMs powered off.

    The switch's own uplink counts: if it was moved by hand, the provider would move it back.
    """
    if olds.get("host") != news.get("host"):
        return ""
    host, then = vcenter.host(str(news["host"])), find(vcenter, news)["device"]
    now = ", ".join(vcenter.uplinks(host, str(olds["switch"]))) or olds.get("device")
    running = vcenter.running_pvrdma_vms(host) if now not in (None, then) else []
    if not running:
        return ""
    return (
        f"{news['host']}: the uplink of {news['switch']} is {now}, and {', '.join(running[:3])} use PVRDMA "
        f"over it; power them off before it becomes {then}"
    )


def find(vcenter: VCenter, props: Props) -> dict[str, str]:
    """Name and address of the NIC that fits.

    Raises:
        LabError: when not exactly one does.
    """
    host = str(props["host"])
    choice = UplinkChoice.model_validate_json(str(props["choice"]))
    nics = vcenter.nics(vcenter.host(host))
    nic = choose(host, nics, choice, str(props["switch"]), rdma=bool(props["rdma"]))
    return {"device": nic.name, "mac": nic.mac}
