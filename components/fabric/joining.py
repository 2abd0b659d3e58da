"""What is said when a host does not get onto its switch, or no adapter there, or would get two: the engine's hooks."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path

import pulumi
from pyVmomi import vmodl

from components.fabric.preflight.claims import taken_address
from components.fabric.vcenter.client import Endpoint, VCenter, session
from components.fabric.vcenter.endpoint import peer_of
from components.fabric.vcenter.nics import choose
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
        """For a switch that is made with its hosts: whose NIC is taken."""
        return self._said(f"{switch.rail}-taken", lambda vcenter: taken(vcenter, switch))

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

    def _said(self, key: str, look: Look) -> pulumi.ResourceHookBinding:
        async def explain(failed: pulumi.ErrorHookArgs) -> bool:
            """True would have the engine try again at once, which frees no NIC."""
            if failed.failed_operation == "delete":
                return False

            try:
                for said in await self._answers(look):
                    pulumi.log.error(said)
            # an error here would take the place of the provider's own, which is the one to be read
            except (LabError, OSError, HTTPException, vmodl.MethodFault) as error:
                pulumi.log.warn(f"{self.name}: no look at what is wrong: {error}")
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
    """The hosts that cannot bring their NIC along, each with what has it."""
    rdma = any(one.vmkernel is not None for one in switch.hosts)
    for host in switch.hosts:
        try:
            nics = vcenter.nics(vcenter.host(host.name))
            choose(host.name, nics, host.uplink or switch.uplink, switch.name, rdma=rdma)
        except LabError as error:
            yield f"{error}; then run it again"


def left(vcenter: VCenter, switch: DistributedSwitch, host: str) -> Iterable[str]:
    """What to do where a host is not on the switch of its adapter."""
    if not vcenter.uplinks(vcenter.host(host), switch.name):
        yield (
            f"{host}: is no member of {switch.name} any more, so that it gets no vmkernel adapter there: "
            "pulumi up --refresh --run-program puts it back"
        )


def doubled(vcenter: VCenter, switch: DistributedSwitch, host: str) -> Iterable[str]:
    """What has the address already that a new adapter of the host is to get."""
    wanted = next((one.vmkernel.address for one in switch.hosts if one.name == host and one.vmkernel), None)
    for vmk, address in vcenter.vmkernel_names(vcenter.host(host)).items():
        if wanted is not None and address == str(wanted.ip):
            yield taken_address(host, vmk, address)
