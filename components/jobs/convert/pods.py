"""The pods: from `kubectl exec` to SSH, and from privileged containers to a device plugin."""

from pydantic import JsonValue

from components.jobs.convert.lines import Path
from components.jobs.convert.words import convert_env, convert_launch
from components.jobs.convert.work import Map, Work, as_list, as_map, made

DEVICES = "/dev/infiniband"
SSH_PORT = 22
SSHD = "openssh server and client, StrictModes no and StrictHostKeyChecking no"


def convert_pods(work: Work) -> None:
    """Both roles; workers first, since their variables have to travel with the launcher's command."""
    lost: dict[str, str] = {}
    _say_images(work)
    for role, path, replica in work.replicas():
        pod = made(made(replica, "template"), "spec")
        _without_kubectl(work, (*path, "template", "spec"), pod)
        for here, container in work.containers(role):
            convert_env(work, here, container)
        if role == "Worker":
            lost |= _convert_workers(work, (*path, "template", "spec"), pod)
    for path, container in work.containers("Launcher"):
        convert_launch(work, path, container, lost)
        if "nvidia.com/gpu" in as_map(as_map(container.get("resources")).get("limits")):
            work.note((*path, "resources", "limits"), "GPUs for the launcher, which only starts the ranks: they idle")


def _say_images(work: Work) -> None:
    seen: set[JsonValue] = set()
    for role in ("Launcher", "Worker"):
        for path, container in work.containers(role):
            image = container.get("image")
            if not isinstance(image, str) or image in seen:
                continue
            seen.add(image)
            old = " (TensorFlow 1 for CUDA 10: today's GPUs do not run it)" if "tensorflow-benchmarks" in image else ""
            work.note((*path, "image"), f"{image}{old}: workers run sshd now, so the image must have {SSHD}")


def _without_kubectl(work: Work, path: Path, pod: Map) -> None:
    kept = []
    for position, container in enumerate(as_list(pod.get("initContainers"))):
        if "kubectl-delivery" in f"{as_map(container).get('name')} {as_map(container).get('image')}":
            work.note((*path, "initContainers", position), "left out: it brought kubectl, and SSH has replaced that")
        else:
            kept.append(container)
    if "initContainers" in pod:
        pod["initContainers"] = kept
        if not kept:
            del pod["initContainers"]


def _convert_workers(work: Work, path: Path, pod: Map) -> dict[str, str]:
    """Probes, commands and devices; returns the variables that sshd's sessions would lose."""
    lost: dict[str, str] = {}
    if pod.get("hostNetwork"):
        work.note(
            (*path, "hostNetwork"), "the node's own sshd has port 22: give sshd -p and plm_rsh_args -p another one"
        )
    for here, container in work.containers("Worker"):
        command = [str(word) for key in ("command", "args") for word in as_list(container.get(key))]
        if any(word.rpartition("/")[2] == "sleep" for word in command[:1]) or command[-2:] == ["sleep", "infinity"]:
            container.pop("command", None)
            container.pop("args", None)
            work.note((*here, "command"), f"{' '.join(command)}: left out. Without a command the operator starts sshd")
        elif command and "sshd" not in " ".join(command):
            work.note((*here, "command"), f"{' '.join(command)[:60]}: must start sshd, or no rank is reached")
        if "readinessProbe" not in container:
            container["readinessProbe"] = {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2}
            work.note(here, "readinessProbe on port 22 added: the launcher waits for it")
        for position, entry in enumerate(as_list(container.get("env"))):
            variable = as_map(entry)
            if "value" in variable:
                lost[str(variable.get("name"))] = str(variable["value"])
            else:
                work.note((*here, "env", position), "valueFrom: no rank sees it, since sshd sessions do not inherit it")
        _convert_devices(work, here, container, path, pod)
    return lost


def _convert_devices(work: Work, path: Path, container: Map, pod_path: Path, pod: Map) -> None:
    """Privileged containers and the host's RDMA devices: kept and named, or replaced by the resource that was given."""
    security = as_map(container.get("securityContext"))
    mounts = [
        volume
        for volume in as_list(pod.get("volumes"))
        if as_map(as_map(volume).get("hostPath")).get("path") == DEVICES
    ]
    with_it = "replaced by" if work.device_resource else "works, but opens the host: --device-resource replaces it by"
    resource = work.device_resource or "the device plugin's resource"
    remedy = f"{with_it} {resource} and IPC_LOCK"
    if security.get("privileged"):
        work.note((*path, "securityContext", "privileged"), remedy)
    for position, volume in enumerate(as_list(pod.get("volumes"))):
        if volume in mounts:
            work.note((*pod_path, "volumes", position), f"hostPath {DEVICES}: {remedy}")
    if not work.device_resource or not (security.get("privileged") or mounts):
        return
    security.pop("privileged", None)
    made(container, "securityContext")["capabilities"] = {"add": ["IPC_LOCK"]}
    made(made(container, "resources"), "limits")[work.device_resource] = 1
    names = {as_map(volume).get("name") for volume in mounts}
    for owner, key in ((container, "volumeMounts"), (pod, "volumes")):
        kept = [each for each in as_list(owner.get(key)) if as_map(each).get("name") not in names]
        owner[key] = kept
        if not kept:
            del owner[key]
