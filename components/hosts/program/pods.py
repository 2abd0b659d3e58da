"""Pods that are alive on this host, and the devices that the kubelet has given them.

The kubelet keeps its checkpoint over reboots, and it frees a device of a pod that has ended in
memory only: the file is written again with the next allocation (Kubernetes,
`pkg/kubelet/cm/devicemanager/manager.go`, and issue 109595). So the file alone does not show the
present. A pod's cgroup does: the kubelet makes it before the pod's sandbox, finds its own orphans
by it (`pkg/kubelet/cm/pod_container_manager_linux.go`), and no cgroup outlives a boot.
"""

import json
import os
import re
from typing import Dict, Optional, Set

from .machine import Machine

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
CGROUPS = "/sys/fs/cgroup"
POD_LOGS = "/var/log/pods"
POD_CGROUP = re.compile(r"(?:^|-)pod([0-9a-f]+(?:[-_][0-9a-f]+)*)(?:\.slice)?$")
"""`pod<uid>` of the cgroupfs driver; `kubepods-burstable-pod<uid>.slice` of the systemd driver,
with underscores."""


def allocated_devices(machine: Machine) -> Optional[Dict[str, str]]:
    """The pod of each PCI address that one has.

    None when the kubelet's list is there and cannot be read.
    """
    if not machine.exists(CHECKPOINT):
        return {}
    given: Dict[str, str] = {}
    try:
        for entry in json.loads(machine.read(CHECKPOINT))["Data"]["PodDeviceEntries"] or []:
            devices = entry["DeviceIDs"]  # by NUMA node since Kubernetes 1.20, a plain list before
            for part in devices.values() if isinstance(devices, dict) else [devices]:
                given.update(dict.fromkeys(part, entry["PodUID"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    alive = live_pods(machine) if given else set()
    names = _pod_names(machine) if alive else {}
    return {device: names.get(pod, pod) for device, pod in given.items() if pod in alive}


def _pod_names(machine: Machine) -> Dict[str, str]:
    """Namespace and name by UID, from the folders of the pods' logs: NAMESPACE_NAME_UID."""
    parts = [name.split("_") for name in machine.names(POD_LOGS)]
    return {words[2]: f"{words[0]}/{words[1]}" for words in parts if len(words) == 3}


def live_pods(machine: Machine) -> Set[str]:
    """UIDs of the pods that have a cgroup, of either version, below any root of the kubelet's."""
    uids: Set[str] = set()
    for _, folders, _ in os.walk(machine.path(CGROUPS)):
        pods = {}
        for name in folders:
            for match in [POD_CGROUP.search(name)]:
                if match:
                    pods[name] = match[1].replace("_", "-")
        uids.update(pods.values())
        folders[:] = [name for name in folders if name not in pods]  # pods do not contain pods
    return uids
