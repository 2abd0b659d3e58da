"""Addresses and files of the control plane."""

from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.0.12.200"


@dataclass(frozen=True)
class Layout:
    """Addresses and files of one simulated cluster."""

    state: Path
    """The simulator's folder, `.sim`."""
    binaries: Path
    """Folder with `plane`, `kwok` and `mpi-operator`."""
    address: str = ADDRESS
    """Loopback address on which everything listens."""
    api_port: int = 6443
    etcd_port: int = 2379
    kubelet_port: int = 10247
    """One fake kubelet serves all nodes."""
    operator_port: int = 10290
    """Health endpoint of the MPI operator, instead of its default 8080, which is often in use."""

    @property
    def folder(self) -> Path:
        """All files of the cluster except the kubeconfig."""
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
        """A file of the cluster's certificates and keys."""
        return self.folder / "pki" / name
