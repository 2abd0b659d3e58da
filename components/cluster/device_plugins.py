"""What every device plugin with a configuration of its own has in common: the pod that the kubelet talks to."""

import hashlib
from dataclasses import dataclass

from pydantic import JsonValue

from components.cluster.manifests import (
    Manifest,
    Program,
    config_map,
    daemon_set,
    host_folder,
    mount,
    resources,
    runs,
    unprivileged,
)

CONFIG_ANNOTATION = "rocelab/config"
"""Digest of the configuration: plugins read it once, when they start, so another one is a new pod."""
KUBELET_FOLDERS = {
    "device-plugins": "/var/lib/kubelet/device-plugins",
    "plugins-registry": "/var/lib/kubelet/plugins_registry",
}
"""Where the kubelet looks for plugins, by the name of the volume: both of its ways, as each plugin takes one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePlugin:
    """What tells one plugin from another."""

    app: str
    daemon_set: str
    container: str
    image: str
    args: tuple[str, ...] = ()
    config_map: str
    config_folder: str
    """Where it looks for its `config.json`."""
    folder: tuple[str, str]
    """Volume and path of the node's folder that it needs besides the kubelet's; the pod has it in the same place."""
    makes_folder: bool = False
    looks_once: str = ""
    """For a plugin that looks for devices only when it starts: the shell function `look`, which prints what the plugin
    depends on. When it prints something else, the kubelet restarts the plugin. Empty: it looks again by itself."""


SEEN = "/seen/devices"
SAME = f"""now=$(look)
[ "$now" = "$(cat {SEEN})" ] && exit
echo "$now" >{SEEN}
echo "devices came, went or were made again: the plugin looks again"
exit 1"""
"""A liveness probe that fails once for each change. Its file is never younger than the plugin's own look."""


def render_plugin(plugin: DevicePlugin, namespace: str, config: str) -> Program:
    """Its settings, and a pod on each node."""
    container: Manifest = {
        "name": plugin.container,
        "image": plugin.image,
        **({"args": list(plugin.args)} if plugin.args else {}),
        "resources": resources("50m", "40Mi", "200Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            *(mount(name, path) for name, path in KUBELET_FOLDERS.items()),
            {"name": "config", "mountPath": plugin.config_folder, "readOnly": True},
            mount(*plugin.folder),
            *([mount("seen", "/seen")] if plugin.looks_once else []),
        ],
        **(
            {"livenessProbe": runs(f"{plugin.looks_once}; {SAME}", period_s=30, failures=1)}
            if plugin.looks_once
            else {}
        ),
    }
    # before the plugin looks, so that nothing can come between its look and this one unnoticed
    first: Manifest = {
        "name": "seen",
        "image": plugin.image,
        "command": ["sh", "-c", f"{plugin.looks_once}; look >{SEEN}"],
        "resources": resources("10m", "15Mi", "64Mi"),
        "securityContext": unprivileged(),
        "volumeMounts": [mount("seen", "/seen")],
    }
    volumes: list[JsonValue] = [
        *(host_folder(name, path) for name, path in KUBELET_FOLDERS.items()),
        host_folder(*plugin.folder, create=plugin.makes_folder),
        {"name": "config", "configMap": {"name": plugin.config_map}},
    ]
    if plugin.looks_once:
        volumes.append({"name": "seen", "emptyDir": {"medium": "Memory"}})
    pod: Manifest = {
        "hostNetwork": True,
        # it talks to the kubelet only
        "automountServiceAccountToken": False,
        **({"initContainers": [first]} if plugin.looks_once else {}),
        "containers": [container],
        "volumes": volumes,
    }
    digest = {CONFIG_ANNOTATION: hashlib.sha256(config.encode()).hexdigest()[:16]}
    return Program(
        needs={"config": config_map(plugin.config_map, plugin.app, namespace, {"config.json": config})},
        runs={"daemonset": daemon_set(plugin.daemon_set, plugin.app, namespace, pod, digest)},
    )
