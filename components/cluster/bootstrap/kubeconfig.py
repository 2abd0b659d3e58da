"""The kubeconfig of a cluster that rocelab creates, as a resource whose inputs change only with the cluster's identity.

A script that is edited, a host that moves or a node that joins changes nothing of it, so nothing of it makes the
Kubernetes objects of the stack look changed. The state contains the path of this module, so it must not move.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pulumi
from pulumi.dynamic import (
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from components.ssh import credentials
from components.ssh.configured import Configured, plainly
from components.ssh.credentials import admin_config, control_planes_of
from stacks.base import LabError
from stacks.lab import Lab

Props = dict[str, object]


class KubeconfigProvider(Configured, ResourceProvider):
    """Thin: the hosts come from the lab of the run, not from the state."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        return DiffResult(changes=_olds.get("cluster") != _news.get("cluster"))

    @plainly()
    def create(self, props: Props) -> CreateResult:
        """Reads it from a control plane.

        Raises:
            LabError: when none has it.
        """
        return CreateResult("kubeconfig", {**props, "kubeconfig": self._read()})

    def read(self, id_: str, props: Props) -> ReadResult:
        """Reads it again, because control planes renew certificates. A silent one changes nothing."""
        inputs = {"cluster": props.get("cluster")}
        try:
            return ReadResult(id_, {**props, "kubeconfig": self._read()}, inputs)
        except LabError as error:
            pulumi.log.warn(str(error))
            return ReadResult(id_, props, inputs)

    @plainly()
    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult({**_news, "kubeconfig": self._read()})

    def _read(self) -> str:
        lab = credentials.configured_lab(self._setting)
        login = credentials.login_to(lab, Path.cwd(), self._setting)
        return asyncio.run(admin_config(control_planes_of(lab, login.endpoints), login.keys))


class Kubeconfig(Resource, module="cluster", name="Kubeconfig"):
    """The administrator's kubeconfig of the lab's own cluster."""

    kubeconfig: pulumi.Output[str]
    """Secret."""

    def __init__(self, name: str, cluster: str, opts: pulumi.ResourceOptions | None = None) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        props = {"cluster": cluster, "kubeconfig": None}
        super().__init__(KubeconfigProvider(), name, props, pulumi.ResourceOptions.merge(opts, secret))


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeClusterArgs:
    lab: Lab
    hosts: pulumi.Resource
    """What creates the cluster."""


class MadeCluster(pulumi.ComponentResource):
    """The cluster that the hosts' Fleet created, for other layers."""

    kubeconfig: pulumi.Output[str]

    def __init__(self, name: str, args: MadeClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:cluster:MadeCluster", name, None, opts)
        # no value of the hosts shows that they form a cluster by now
        made = pulumi.ResourceOptions(parent=self, depends_on=[args.hosts])
        self.kubeconfig = Kubeconfig(f"{name}-kubeconfig", args.lab.name, made).kubeconfig
        self.register_outputs({"kubeconfig": self.kubeconfig})
