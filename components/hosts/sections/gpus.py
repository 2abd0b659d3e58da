"""What a host's document says of its GPUs."""

from pydantic import JsonValue

from components.hosts.sections.drivers import BUILD_S, download_of
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.software import Installed

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
