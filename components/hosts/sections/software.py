"""Sections of a host's document for software: driver, firmware, GPUs, container runtime, Kubernetes."""

from pydantic import JsonValue

from components.hosts.program.steps.driver_container import UNLOADS
from stacks.bill import pause_image
from stacks.delivery import Pvrdma
from stacks.drivers import NicDriver
from stacks.lab import Lab
from stacks.nodes import BareMetal, Node
from stacks.software import Download, Installed

BUILD_S = 1800
"""What a run may take longer when a driver is asked for: lists, packages, and modules built on a slow core."""
FIRMWARE_S = 240
CONNECTX = "mlx5_core"
"""What drivers and firmware here are about. A guest's vmxnet3 and the simulator's igb have others, which come with the
kernel: a guest with PVRDMA has no mlx5_core at all."""


def driver_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: the cluster's operator owns the driver, or there is no NIC of that driver to look at."""
    driver = lab.driver
    in_use = any(pf.driver == CONNECTX for pf in node.pfs)
    if driver.source == "operator" or (driver.source == "keep" and not in_use):
        return None
    section: dict[str, JsonValue] = {"source": driver.source, "version": driver.version, "in_use": in_use}
    if driver.source == "keep":
        return section
    return {
        **section,
        "packages": list(driver.packages),
        "download": download_of(driver.download),
        "kernel_modules": driver.kernel_modules,
        "replace": driver.replace,
        "restart": driver.restart,
        "may_reboot": lab.hosts.allow_reboot,
    }


def driver_container_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: no driver container will replace this host's driver."""
    if lab.driver.source != "operator" or not any(pf.driver == CONNECTX for pf in node.pfs):
        return None
    unloads: list[JsonValue] = [name for name in UNLOADS if lab.driver.container_env.get(name, "").lower() == "true"]
    return {"unloads": unloads}


def firmware_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: firmware settings are nobody's business here."""
    pfs = [pf.interface for pf in node.pfs if pf.driver == CONNECTX]
    if not lab.firmware.manage or not pfs:
        return None
    return {
        "pfs": list(pfs),
        "vfs": lab.firmware.vfs_ceiling,
        "convert": [pf.interface for pf in node.pfs if pf.convert_infiniband],
        "may_reboot": lab.hosts.allow_reboot,
    }


def firmware_versions_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: whatever the NICs run is fine, or there is no card of the node's own whose firmware it could be."""
    if not isinstance(node, BareMetal):
        return None
    versions = {pf.interface: lab.firmware.version_of(pf.rail) for pf in node.pfs}
    return {pf: version for pf, version in versions.items() if version} or None


def driver_seconds(lab: Lab) -> int:
    """How much longer than usual a run may take for driver and firmware."""
    return (BUILD_S if _installs(lab.driver) else 0) + (FIRMWARE_S if lab.firmware.manage else 0)


def download_of(download: Download | None) -> JsonValue:
    """A file of the vendor's, in the document's form."""
    return {"url": download.url, "sha256": download.sha256} if download else None


def _installs(driver: NicDriver) -> bool:
    return driver.source not in ("keep", "operator")


INSTALL_S = 600


def gpu_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: the lab does not look at GPUs, or the node has none."""
    gpu = lab.gpu
    if gpu is None or node.gpus == 0:
        return None
    toolkit = software(gpu.toolkit)
    return {
        "driver": {**software(gpu.driver), **({"package": download_of(file)} if (file := gpu.driver.package) else {})},
        "toolkit": {**toolkit, "default_runtime": gpu.toolkit.default_runtime},
        "gpudirect": gpu.gpudirect,
        "may_reboot": lab.hosts.allow_reboot,
    }


def gpu_seconds(lab: Lab) -> int:
    """How much longer than usual a run may take for GPUs."""
    if lab.gpu is None:
        return 0
    driver, toolkit = lab.gpu.driver.source == "packaged", lab.gpu.toolkit.source == "packaged"
    return BUILD_S * driver + INSTALL_S * toolkit


def software(asked: Installed) -> dict[str, JsonValue]:
    """Software with a source, in the document's form."""
    if asked.source != "packaged":
        return {"source": asked.source, "version": asked.version}
    return {
        "source": asked.source,
        "version": asked.version,
        "packages": list(asked.packages),
        "repository": download_of(asked.repository),
        "replace": asked.replace,
    }


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


def kubernetes_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """Version, role and the address that the kubelet tells; None: the cluster exists already, or there is none."""
    bootstrap = lab.cluster.bootstrap if lab.cluster else None
    if bootstrap is None:
        return None
    section: dict[str, JsonValue] = {
        "version": bootstrap.version,
        "role": node.role,
        "node_ip": str(node.address),
        "cri_socket": bootstrap.cri_socket,
    }
    if bootstrap.packages != "preinstalled":
        section["repository"] = {"url": bootstrap.packages.url, "key_sha256": bootstrap.packages.key_sha256}
    return section
