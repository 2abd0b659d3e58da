"""The kubeconfig of a cluster that rocelab creates.

Its inputs change only with the cluster: a script that is edited, a host that moves or a node that
joins does not make the Kubernetes objects of the stack look changed.
"""

from pathlib import Path
from typing import Annotated

from components.provider import log
from components.provider.base import SECRET, Properties, Resource
from components.ssh.credentials import CONTROL_PLANE, admin_kubeconfig
from stacks.base import LabError


class KubeconfigInputs(Properties):
    cluster: str
    """Name of the lab that creates the cluster."""


class KubeconfigState(KubeconfigInputs):
    kubeconfig: Annotated[str, SECRET]
    """The administrator's, for the Kubernetes provider; our own resources read it when needed."""


class Kubeconfig(Resource[KubeconfigInputs, KubeconfigState]):
    """The administrator's kubeconfig, from the first control plane that has it."""

    async def create(self, new: KubeconfigInputs) -> KubeconfigState:
        text = await admin_kubeconfig(CONTROL_PLANE, self.config, Path.cwd())
        return KubeconfigState(cluster=new.cluster, kubeconfig=text)

    async def read(self, old: KubeconfigState) -> KubeconfigState:
        """Reads it again: control planes renew certificates. A silent one changes nothing."""
        try:
            return await self.create(old)
        except LabError as error:
            log.warn(str(error))
            return old
