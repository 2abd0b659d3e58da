"""What a host's document says of its container runtime."""

from pydantic import JsonValue

from components.hosts.sections.gpus import INSTALL_S, software
from stacks.bill import pause_image
from stacks.lab import Lab


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
