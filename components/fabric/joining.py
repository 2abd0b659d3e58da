"""Error hooks that explain why a switch, port group or vmkernel adapter could not be created.

They remove nothing: only the owner of a switch that this stack does not know can decide about it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException
from itertools import chain
from pathlib import Path

import pulumi
from pyVmomi import vim, vmodl

from components.fabric.preflight.claims import taken_address
from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.nics import choose
from components.fabric.vcenter.objects import entity_named
from components.fabric.vcenter.properties import collect, collect_all
from components.fabric.vcenter.session import VcenterEndpoint, peer_of
from stacks.base import LabError
from stacks.fabric import DistributedSwitch, Fabric

Look = Callable[[VCenter], Iterable[str]]

LOOKING = ThreadPoolExecutor(max_workers=4, thread_name_prefix="rocelab-look")
"""Separate threads: each resource in creation holds one of the event loop's until its hooks end, so
a hook that waited for one of those could deadlock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Joining:
    """Hooks that ask the vCenter for the cause: its own error names no host and no remedy."""

    name: str
    """Name of the component that owns the resources."""
    fabric: Fabric
    password: pulumi.Input[str]

    def switch(self, switch: DistributedSwitch) -> pulumi.ResourceHookBinding:
        """For a switch that is created with its hosts.

        Which NICs are taken, and whether its name exists now.
        """
        there = partial(unknown_switch, datacenter=self.fabric.datacenter, switch=switch)
        return self._said(f"{switch.rail}-taken", lambda vcenter: taken(vcenter, switch), there)

    def group(self, switch: DistributedSwitch) -> pulumi.ResourceHookBinding:
        """For a port group: whether one of its name exists."""
        there = partial(unknown_group, datacenter=self.fabric.datacenter, switch=switch)
        return self._said(f"{switch.rail}-group", lambda _: (), there)

    def adapter(self, switch: DistributedSwitch, host: str) -> pulumi.ResourceHookBinding:
        """For a vmkernel adapter.

        Whether its host is on the switch, and whether another adapter has the address.

        The second check runs before creation, when the state has no adapter of this stack.
        Otherwise a run after an interrupted one would create a second adapter.
        """
        key = f"{switch.rail}-{host}"

        async def refuse(_: pulumi.ResourceHookArgs) -> None:
            for said in await self._answers(lambda vcenter: doubled(vcenter, switch, host)):
                raise LabError(said)

        said = self._said(f"{key}-left", lambda vcenter: left(vcenter, switch, host))
        said.before_create = [pulumi.ResourceHook(f"{self.name}-{key}-doubled", refuse)]
        return said

    def _said(self, key: str, look: Look, made: Look = lambda _: ()) -> pulumi.ResourceHookBinding:
        """Logs what `look` finds beside any error, and what `made` finds if a creation failed."""

        async def explain(failed: pulumi.ErrorHookArgs) -> bool:
            """Returns False: with True the engine would try again at once, which frees no NIC."""
            if failed.failed_operation == "delete":
                return False

            try:
                # an object that exists without being in the state matters for a creation only
                looks = (look, made) if failed.failed_operation == "create" else (look,)
                for said in await self._answers(
                    lambda vcenter: chain.from_iterable(one(vcenter) for one in looks)
                ):
                    pulumi.log.error(said)
            # an error here would hide the provider's own
            except (LabError, OSError, HTTPException, vmodl.MethodFault) as error:
                pulumi.log.warn(f"{self.name}: cannot look for the cause: {error}")
            return False

        return pulumi.ResourceHookBinding(
            on_error=[pulumi.ErrorHook(f"{self.name}-{key}", explain)]
        )

    async def _answers(self, look: Look) -> list[str]:
        def at_once(endpoint: VcenterEndpoint) -> list[str]:
            with session(endpoint, pulumi.log.info) as vcenter:
                return list(look(vcenter))

        endpoint, context = await self._endpoint(), copy_context()  # it knows where the log goes
        return await asyncio.get_running_loop().run_in_executor(
            LOOKING, context.run, at_once, endpoint
        )

    async def _endpoint(self) -> VcenterEndpoint:
        password = await pulumi.Output.from_input(self.password).future() or ""
        return replace(peer_of(self.fabric, Path.cwd()), user=self.fabric.user, password=password)


def taken(vcenter: VCenter, switch: DistributedSwitch) -> Iterable[str]:
    """The hosts whose NIC is not free, each with the reason."""
    for host in switch.hosts:
        try:
            nics = vcenter.nics(vcenter.host(host.name))
            choose(
                host.name,
                nics,
                host.uplink or switch.uplink,
                switch.name,
                rdma=switch.carries_pvrdma,
            )
        except LabError as error:
            yield f"{error}; then run again"


def unknown_switch(vcenter: VCenter, datacenter: str, switch: DistributedSwitch) -> Iterable[str]:
    """What to do about a switch that exists after its creation failed.

    vCenter 7.0.3 keeps a switch that a host cannot join, without a host and without returning its
    ID (terraform-provider-vsphere, issues 1740 and 1908).
    """
    place = entity_named(vcenter, vim.Datacenter, datacenter, None)
    for _, found in collect_all(
        vcenter.content, vim.DistributedVirtualSwitch, ["name", "config", "portgroup"], place
    ):
        if found["name"] != switch.name:
            continue
        hosts = _names(vcenter, [one.config.host for one in found["config"].host or []])
        uplinks = found["config"].uplinkPortgroup or []
        groups = _names(
            vcenter, [one for one in found.get("portgroup") or [] if one not in uplinks]
        )
        said = (
            f"distributed switch {switch.name} exists in the vCenter, but this stack does not know "
            "it. Nothing was removed."
        )
        if not hosts and not groups:
            yield (
                f"{said} It has no host and no port group, so its creation was probably "
                "interrupted. Delete it in vCenter, then run again"
            )
        else:
            yield (
                f"{said} It has {hosts or 'no hosts'}, and {groups or 'no port group'}. To manage "
                "it, set use: adopt; otherwise choose another name. Delete it in vCenter only if "
                "an interrupted run of this lab left it"
            )


def unknown_group(vcenter: VCenter, datacenter: str, switch: DistributedSwitch) -> Iterable[str]:
    """What to do about a network that has the name of a port group whose creation failed."""
    place = entity_named(vcenter, vim.Datacenter, datacenter, None)
    for _, found in collect_all(vcenter.content, vim.Network, ["name", "vm"], place):
        if found["name"] == switch.port_group:
            users = _names(vcenter, found.get("vm") or [])
            keep = ", or set port_group_use: adopt to keep it" if switch.use != "create" else ""
            yield (
                f"network {switch.port_group} exists in the vCenter, but this stack does not know "
                f"it. Nothing was removed. {users or 'No VM'} is connected to it. If an "
                f"interrupted run left it, delete it in vCenter and run again{keep}; otherwise "
                "choose another name"
            )


def _names(vcenter: VCenter, objects: Sequence[vim.ManagedEntity]) -> str:
    return ", ".join(
        sorted(str(one.get("name", "")) for one in collect(vcenter.content, objects, ["name"]))
    )


def left(vcenter: VCenter, switch: DistributedSwitch, host: str) -> Iterable[str]:
    """What to do about a host that is not a member of its adapter's switch."""
    if not vcenter.uplinks(vcenter.host(host), switch.name):
        yield (
            f"{host}: is no longer a member of {switch.name}, so it gets no vmkernel adapter "
            "there; run pulumi up --refresh to add it again"
        )


def doubled(vcenter: VCenter, switch: DistributedSwitch, host: str) -> Iterable[str]:
    """The adapter that already has the address of the host's new one."""
    wanted = next(
        (one.vmkernel.address for one in switch.hosts if one.name == host and one.vmkernel), None
    )
    for vmk, address in vcenter.vmkernel_names(vcenter.host(host)).items():
        if wanted is not None and address == str(wanted.ip):
            yield taken_address(host, vmk, address)
