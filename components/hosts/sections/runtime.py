"""What a host's document says of its container runtime."""

from pydantic import JsonValue

from components.hosts.sections.gpus import INSTALL_S, software
from stacks.bill import pause_image
from stacks.delivery import Pvrdma
from stacks.lab import Lab

CNI_BIN, CNI_CONFIG = "/opt/cni/bin", "/etc/cni/net.d"
"""Where the cluster's node agents put plugins and Multus' configuration."""


def runtime_section(lab: Lab) -> dict[str, JsonValue] | None:
    """None: the runtime is left as it is."""
    runtime = lab.runtime
    if runtime is None:
        return None
    section: dict[str, JsonValue] = {"memlock": runtime.memlock}
    if runtime.containerd.source == "packaged":
        section["containerd"] = {
            **software(runtime.containerd),
            "sandbox_image": runtime.containerd.sandbox_image or _pause_image(lab),
            "registries": _registries(lab),
        }
    return section


def cni_folders_section(lab: Lab) -> dict[str, JsonValue] | None:
    """Where the cluster's plugins are; None where pods have no network of their own, or containerd is ours."""
    ours = lab.runtime is not None and lab.runtime.containerd.source == "packaged"
    if lab.cluster is None or isinstance(lab.cluster.delivery, Pvrdma) or ours:
        return None
    return {"bin": CNI_BIN, "conf": CNI_CONFIG}


def runtime_seconds(lab: Lab) -> int:
    """How much longer than usual a run may take for the runtime."""
    return INSTALL_S if lab.runtime and lab.runtime.containerd.source == "packaged" else 0


def _pause_image(lab: Lab) -> str:
    bootstrap = lab.cluster.bootstrap if lab.cluster else None
    return pause_image(bootstrap.version, bootstrap.image_repository) if bootstrap else pause_image(None)


def _registries(lab: Lab) -> list[JsonValue]:
    """Mirrors of the lab's cluster, for images that others name; containerd knows whole registries only."""
    mirrors = lab.cluster.registry.mirrors if lab.cluster else {}
    return [{"host": host, "mirror": mirror} for host, mirror in sorted(mirrors.items()) if "/" not in host]
