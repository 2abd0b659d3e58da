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
from components.fabric.vcenter.client import Endpoint, VCenter, session
from components.fabric.vcenter.nics import choose
from components.fabric.vcenter.objects import entity_named
from components.fabric.vcenter.properties import collect, collect_all
from components.fabric.vcenter.session import peer_of
from stacks.base import LabError
from stacks.fabric import DistributedSwitch, Fabric

Look = Callable[[VCenter], Iterable[str]]

LOOKING = ThreadPoolExecutor(max_workers=4, thread_name_prefix="rocelab-look")
"""Threads of our own: each resource that is being made holds one of the event loop's until its hooks have ended, so a
hook that waited for one of those might wait for ever."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Joining:
    """Hooks that ask the vCenter what is wrong now, since its own error names no host and no remedy."""

    name: str
    """Of the component whose resources they are for."""
    fabric: Fabric
    password: pulumi.Input[str]

    def switch(self, switch: DistributedSwitch) -> pulumi.ResourceHookBinding:
        """For a switch that is made with its hosts: whose NIC is taken, and whether one of its name is there now."""
        there = partial(unknown_switch, datacenter=self.fabric.datacenter, switch=switch)
        return self._said(f"{switch.rail}-taken", lambda vcenter: taken(vcenter, switch), there)

    def group(self, switch: DistributedSwitch) -> pulumi.ResourceHookBinding:
        """For a port group: whether one of its name exists."""
        there = partial(unknown_group, datacenter=self.fabric.datacenter, switch=switch)
        return self._said(f"{switch.rail}-group", lambda _: (), there)

    def adapter(self, switch: DistributedSwitch, host: str) -> pulumi.ResourceHookBinding:
        """For a vmkernel adapter: whether its host is on the switch at all, and whether one has its address before.

        That is asked when the engine sets out to make one, so none of ours is in the state then: a run that was killed
        before it could write its adapter down would otherwise get a second one.
        """
        key = f"{switch.rail}-{host}"

        async def refuse(_: pulumi.ResourceHookArgs) -> None:
            for said in await self._answers(lambda vcenter: doubled(vcenter, switch, host)):
                raise LabError(said)

        said = self._said(f"{key}-left", lambda vcenter: left(vcenter, switch, host))
        said.before_create = [pulumi.ResourceHook(f"{self.name}-{key}-doubled", refuse)]
        return said

    def _said(self, key: str, look: Look, made: Look = lambda _: ()) -> pulumi.ResourceHookBinding:
        """What `look` says is said beside any error; what `made` says where something could not be made."""

        async def explain(failed: pulumi.ErrorHookArgs) -> bool:
            """Returns False: with True the engine would try again at once, which frees no NIC."""
            if failed.failed_operation == "delete":
                return False

            try:
                # a state has what is changed, and may not have what somebody has begun to make
                looks = (look, made) if failed.failed_operation == "create" else (look,)
                for said in await self._answers(lambda vcenter: chain.from_iterable(one(vcenter) for one in looks)):
                    pulumi.log.error(said)
            # an error here would take the place of the provider's own, which is the one to be read
            except (LabError, OSError, HTTPException, vmodl.MethodFault) as error:
                pulumi.log.warn(f"{self.name}: cannot look for the cause: {error}")
            return False

        return pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(f"{self.name}-{key}", explain)])

    async def _answers(self, look: Look) -> list[str]:
        def at_once(endpoint: Endpoint) -> list[str]:
            with session(endpoint, pulumi.log.info) as vcenter:
                return list(look(vcenter))

        endpoint, context = await self._endpoint(), copy_context()  # which has where the log goes
        return await asyncio.get_running_loop().run_in_executor(LOOKING, context.run, at_once, endpoint)

    async def _endpoint(self) -> Endpoint:
        told = await pulumi.Output.from_input(self.password).future() or ""
        return replace(peer_of(self.fabric, Path.cwd()), user=self.fabric.user, password=told)


def taken(vcenter: VCenter, switch: DistributedSwitch) -> Iterable[str]:
    """The hosts whose NIC is not free, each with the reason."""
    for host in switch.hosts:
        try:
            nics = vcenter.nics(vcenter.host(host.name))
            choose(host.name, nics, host.uplink or switch.uplink, switch.name, rdma=switch.carries_pvrdma)
        except LabError as error:
            yield f"{error}; then run again"


def unknown_switch(vcenter: VCenter, datacenter: str, switch: DistributedSwitch) -> Iterable[str]:
    """What to do about a switch that is there after it could not be made: the state has none.

    vCenter 7.0.3 keeps one when a host cannot join it, and has then neither told its id nor taken any host
    (terraform-provider-vsphere, issues 1740 and 1908).
    """
    place = entity_named(vcenter, vim.Datacenter, datacenter, None)
    for _, found in collect_all(vcenter.content, vim.DistributedVirtualSwitch, ["name", "config", "portgroup"], place):
        if found["name"] != switch.name:
            continue
        hosts = _names(vcenter, [one.config.host for one in found["config"].host or []])
        uplinks = found["config"].uplinkPortgroup or []
        groups = _names(vcenter, [one for one in found.get("portgroup") or [] if one not in uplinks])
        said = (
            f"distributed switch {switch.name} exists in the vCenter, but this stack does not know it. "
            "Nothing was removed."
        )
        if not hosts and not groups:
            yield (
                f"{said} It has no host and no port group, so its creation was probably interrupted. Delete it in "
                "vCenter, then run again"
            )
        else:
            yield (
                f"{said} It has {hosts or 'no hosts'}, and {groups or 'no port group'}. To manage it, set use: adopt; "
                "otherwise choose another name. Delete it in vCenter only if an interrupted run of this lab left it"
            )


def unknown_group(vcenter: VCenter, datacenter: str, switch: DistributedSwitch) -> Iterable[str]:
    """What to do about a network that has the name of a port group which could not be made: the state has none."""
    place = entity_named(vcenter, vim.Datacenter, datacenter, None)
    for _, found in collect_all(vcenter.content, vim.Network, ["name", "vm"], place):
        if found["name"] == switch.port_group:
            users = _names(vcenter, found.get("vm") or [])
            keep = ", or set port_group_use: adopt to keep it" if switch.use != "create" else ""
            yield (
                f"network {switch.port_group} exists in the vCenter, but this stack does not know it. Nothing was "
                f"removed. {users or 'No VM'} is connected to it. If an interrupted run left it, delete it in vCenter "
                f"and run again{keep}; otherwise choose another name"
            )


def _names(vcenter: VCenter, objects: Sequence[vim.ManagedEntity]) -> str:
    return ", ".join(sorted(str(one.get("name", "")) for one in collect(vcenter.content, objects, ["name"])))


def left(vcenter: VCenter, switch: DistributedSwitch, host: str) -> Iterable[str]:
    """What to do about a host that is not a member of its adapter's switch."""
    if not vcenter.uplinks(vcenter.host(host), switch.name):
        yield (
            f"{host}: is no longer a member of {switch.name}, so it gets no vmkernel adapter there; run "
            "pulumi up --refresh --run-program to add it again"
        )


def doubled(vcenter: VCenter, switch: DistributedSwitch, host: str) -> Iterable[str]:
    """The adapter that already has the address of the host's new one."""
    wanted = next((one.vmkernel.address for one in switch.hosts if one.name == host and one.vmkernel), None)
    for vmk, address in vcenter.vmkernel_names(vcenter.host(host)).items():
        if wanted is not None and address == str(wanted.ip):
            yield taken_address(host, vmk, address)
