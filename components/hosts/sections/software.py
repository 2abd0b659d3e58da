"""Sections of a host's document for software: driver, firmware, GPUs, container runtime,
Kubernetes.
"""

from pydantic import JsonValue

from components.hosts.program.steps.driver_container import UNLOADS
from stacks.bill import pause_image
from stacks.delivery import Pvrdma
from stacks.lab import Lab
from stacks.nodes import BareMetal, Node
from stacks.software import Installed

CONNECTX = "mlx5_core"
"""The driver that these sections are about. A guest's vmxnet3 and the simulator's igb have
drivers that come with the kernel; a guest with PVRDMA has no mlx5_core at all."""
CNI_BIN, CNI_CONFIG = "/opt/cni/bin", "/etc/cni/net.d"
"""Where the cluster's node agents put plugins and the configuration of Multus."""


def software_sections(lab: Lab, node: Node) -> dict[str, JsonValue | None]:
    """Sections by their key; None: the lab leaves this to the host or to the cluster."""
    return {
        "kubernetes": _kubernetes(lab, node),
        "driver": _driver(lab, node),
        "driver_container": _driver_container(lab, node),
        "firmware": _firmware(lab, node),
        "firmware_versions": _firmware_versions(lab, node),
        "gpu": _gpu(lab, node),
        "runtime": _runtime(lab),
        "cni_folders": _cni_folders(lab),
    }


def _driver(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    driver = lab.driver
    in_use = any(pf.driver == CONNECTX for pf in node.pfs)
    if driver.source == "operator" or (driver.source == "keep" and not in_use):
        return None
    section: dict[str, JsonValue] = {
        "source": driver.source,
        "version": driver.version,
        "in_use": in_use,
    }
    if driver.source == "keep":
        return section
    installed = {"packages", "download", "kernel_modules", "replace", "restart"}
    return {**section, **driver.model_dump(mode="json", include=installed)}


def _driver_container(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    if lab.driver.source != "operator" or not any(pf.driver == CONNECTX for pf in node.pfs):
        return None
    return {
        "unloads": [
            name for name in UNLOADS if lab.driver.container_env.get(name, "").lower() == "true"
        ]
    }


def _firmware(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    pfs = [pf.interface for pf in node.pfs if pf.driver == CONNECTX]
    if not lab.firmware.manage or not pfs:
        return None
    return {
        "pfs": list(pfs),
        "vfs": lab.firmware.vfs_ceiling,
        "convert": [pf.interface for pf in node.pfs if pf.convert_infiniband],
    }


def _firmware_versions(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """Only bare metal has cards whose firmware version can be compared."""
    if not isinstance(node, BareMetal):
        return None
    versions = {pf.interface: lab.firmware.version_of(pf.rail) for pf in node.pfs}
    return {pf: version for pf, version in versions.items() if version} or None


def _gpu(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    gpu = lab.gpu
    if gpu is None or node.gpus == 0:
        return None
    file = gpu.driver.package
    return {
        "driver": {
            **_software(gpu.driver),
            **({"package": file.model_dump(mode="json")} if file else {}),
        },
        "toolkit": {**_software(gpu.toolkit), "default_runtime": gpu.toolkit.default_runtime},
        "gpudirect": gpu.gpudirect,
    }


def _software(program: Installed) -> dict[str, JsonValue]:
    packaged = {"packages", "repository", "replace"} if program.source == "packaged" else set()
    return program.model_dump(mode="json", include={"source", "version"} | packaged)


def _runtime(lab: Lab) -> dict[str, JsonValue] | None:
    runtime = lab.runtime
    if runtime is None:
        return None
    if runtime.containerd.source == "keep":
        return {"memlock": runtime.memlock}
    bootstrap = lab.cluster.bootstrap if lab.cluster else None
    image = pause_image(None)
    if bootstrap:
        image = pause_image(bootstrap.version, bootstrap.image_repository)
    containerd = _software(runtime.containerd)
    containerd["sandbox_image"] = runtime.containerd.sandbox_image or image
    containerd["registries"] = _registries(lab)
    return {"memlock": runtime.memlock, "containerd": containerd}


def _registries(lab: Lab) -> list[JsonValue]:
    """Mirrors of the lab's cluster; containerd knows whole registries only."""
    mirrors = lab.cluster.registry.mirrors if lab.cluster else {}
    hosts = sorted(host for host in mirrors if "/" not in host)
    return [{"host": host, "mirror": mirrors[host]} for host in hosts]


def _cni_folders(lab: Lab) -> dict[str, JsonValue] | None:
    """Where the cluster's plugins are; None where no pod has its own network.

    None also where rocelab configures containerd: its configuration names these folders.
    """
    ours = lab.runtime is not None and lab.runtime.containerd.source == "packaged"
    if lab.cluster is None or isinstance(lab.cluster.delivery, Pvrdma) or ours:
        return None
    return {"bin": CNI_BIN, "conf": CNI_CONFIG}


def _kubernetes(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: the cluster exists already, or there is none."""
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
        section["repository"] = bootstrap.packages.model_dump(
            mode="json", include={"url", "key_sha256"}
        )
    return section
