"""Running containers on a host, and containerd's configuration as text."""

from typing import Any, Dict, List

from .machine import Machine, StepError
from .places import MARK

TASKS = "/run/containerd/io.containerd.runtime.v2.task"
CONFIG_FILE = "/etc/containerd/config.toml"
CONFIG_DROP_INS = "/etc/containerd/conf.d"
MIRRORS = "/etc/containerd/certs.d"
SERVERS = {"docker.io": "registry-1.docker.io"}
"""Addresses of registries that differ from the name in image references."""


def drop_ins(machine: Machine) -> List[str]:
    """Files that containerd reads besides its configuration."""
    names = [name for name in machine.names(CONFIG_DROP_INS) if name.endswith(".toml")]
    return [f"{CONFIG_DROP_INS}/{name}" for name in names]


def running_containers(machine: Machine) -> int:
    """How many containers run, in all of containerd's namespaces."""
    return sum(len(machine.names(f"{TASKS}/{space}")) for space in machine.names(TASKS))


def refuse_package_scripts_under_containers(machine: Machine, what: str) -> None:
    """Refuses to install packages while containers run: the packages' scripts reload systemd.

    With systemd as the cgroup driver a reload takes the GPUs away from containers that run (NVIDIA
    container toolkit, troubleshooting).
    """
    count = running_containers(machine)
    if count and machine.exists("/proc/driver/nvidia"):
        raise StepError(
            f"installing {what} now would take the GPUs away from {count} running containers",
            "drain the node first (kubectl drain), then run again",
        )


def containerd_config(declared: Dict[str, Any], major: int, nvidia: Dict[str, Any]) -> str:
    """All of config.toml: what is not in it keeps containerd's default. The sections moved with
    containerd 2.

    Args:
        declared: the document's `containerd`.
        major: of the containerd that is installed.
        nvidia: the document's container toolkit; empty without one.
    """
    image = declared["sandbox_image"]
    if major < 2:
        cri = images = "plugins.'io.containerd.grpc.v1.cri'"
        lines = ["version = 2", "", f"[{cri}]", f'  sandbox_image = "{image}"']
    else:
        cri, images = (
            "plugins.'io.containerd.cri.v1.runtime'",
            "plugins.'io.containerd.cri.v1.images'",
        )
        lines = ["version = 3", "", f"[{images}.pinned_images]", f'  sandbox = "{image}"']
    lines += ["", f"[{images}.registry]", f'  config_path = "{MIRRORS}"', ""]
    if nvidia.get("default_runtime"):
        lines += [f"[{cri}.containerd]", '  default_runtime_name = "nvidia"', ""]
    runtimes = f"{cri}.containerd.runtimes"
    lines += _runtime(runtimes, "runc", [])
    if nvidia:
        binary = '  BinaryName = "/usr/bin/nvidia-container-runtime"'
        lines += ["", *_runtime(runtimes, "nvidia", [binary])]
    return MARK + "\n".join(lines) + "\n"


def mirror_files(registries: List[Dict[str, str]]) -> Dict[str, str]:
    """Path and text of each registry's hosts.toml. containerd reads them at each pull: nothing is
    restarted.
    """
    files = {}
    for registry in registries:
        name, mirror = registry["host"], registry["mirror"]
        place, _, folder = mirror.partition("/")
        # below a folder of the mirror: containerd would put its /v2 in front of the folder
        path = f"/v2/{folder}" if folder else ""
        files[f"{MIRRORS}/{name}/hosts.toml"] = (
            f"{MARK}"
            f'server = "https://{SERVERS.get(name, name)}"\n\n'
            f'[host."https://{place}{path}"]\n '
            ' capabilities = ["pull", "resolve"]\n' + ("  override_path = true\n" if folder else "")
        )
    return files


def _runtime(runtimes: str, name: str, options: List[str]) -> List[str]:
    return [
        f"[{runtimes}.{name}]",
        '  runtime_type = "io.containerd.runc.v2"',
        f"[{runtimes}.{name}.options]",
        *options,
        "  SystemdCgroup = true",
    ]
