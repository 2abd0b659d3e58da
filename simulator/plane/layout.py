"""Where the control plane listens and where its files lie."""

from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.0.12.200"


@dataclass(frozen=True)
class Layout:
    """The fixed places of one simulated cluster."""

    state: Path
    """The simulator's folder, `.sim`."""
    binaries: Path
    """Folder with `plane`, `kwok` and `mpi-operator`."""
    address: str = ADDRESS
    """Loopback address of all that listens."""
    api_port: int = 6443
    etcd_port: int = 2379
    kubelet_port: int = 10247
    """One fake kubelet serves all nodes."""
    operator_port: int = 10290
    """Health endpoint of the MPI operator; not its usual 8080, which many a developer's machine has taken."""

    @property
    def folder(self) -> Path:
        """All files of the cluster but the kubeconfig."""
        return self.state / "plane"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, as the stack file names it."""
        return self.state / "kubeconfig"

    @property
    def api_url(self) -> str:
        """The API server."""
        return f"https://{self.address}:{self.api_port}"

    @property
    def etcd_url(self) -> str:
        """The cluster's database."""
        return f"http://{self.address}:{self.etcd_port}"

    def pki(self, name: str) -> Path:
        """A file of the cluster's own certificates and keys."""
        return self.folder / "pki" / name
