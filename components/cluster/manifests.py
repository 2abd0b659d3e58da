"""What the rendered Kubernetes objects share: their type, their labels, and the parts that repeat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from stacks.bill import Registry

Manifest = dict[str, JsonValue]
"""A Kubernetes object. No map in it is empty: server-side apply would own the missing content."""

PART_OF: Manifest = {"app.kubernetes.io/part-of": "rocelab"}

# Node agents set up the network of all other pods, so they also run on tainted, full and unready nodes.
TOLERATE_ALL: list[JsonValue] = [
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
]

CNI_BIN = "/opt/cni/bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A program in the cluster, by short key: what its pods need to start, and the pods."""

    needs: Mapping[str, Manifest] = field(default_factory=dict)
    """Accounts, rights and settings."""
    runs: Mapping[str, Manifest]
    """DaemonSets and Deployments."""

    def objects(self) -> list[Manifest]:
        """All objects in the order of their placing."""
        return [*self.needs.values(), *self.runs.values()]


def metadata(name: str, app: str, namespace: str | None = None) -> Manifest:
    """Name and labels of an object of the program `app`; without a namespace it is cluster-wide."""
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {"app.kubernetes.io/name": app, **PART_OF},
    }


def path_of(manifest: Manifest) -> str:
    """The object's path in the API."""
    kind, meta = str(manifest["kind"]).lower(), part(manifest, "metadata")
    plural = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    version = str(manifest["apiVersion"])
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    return f"{group}{namespace}/{plural}/{meta['name']}"


def account(name: str, app: str, namespace: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, app, namespace)}


def rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Manifest:
    """One line of a role."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def cluster_role(name: str, app: str, rules: Sequence[Manifest]) -> Manifest:
    """Rights in all namespaces."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(name, app),
        "rules": list(rules),
    }


def role(name: str, app: str, namespace: str, rules: Sequence[Manifest]) -> Manifest:
    """Rights in one namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(name, app, namespace),
        "rules": list(rules),
    }


def binding(of: Manifest, to: Manifest) -> Manifest:
    """Grants the role `of` to the service account `to`; the binding has the role's name and labels."""
    owner = of["metadata"]
    subject = to["metadata"]
    if not isinstance(owner, dict) or not isinstance(subject, dict):
        raise TypeError("a binding needs a rendered role and account")
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{of['kind']}Binding",
        "metadata": owner,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": of["kind"], "name": owner["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": subject["name"], "namespace": subject["namespace"]}],
    }


def granted(who: Manifest, rights: Manifest, lease_rights: Manifest | None = None) -> dict[str, Manifest]:
    """A service account with its rights, by the keys that name their resources."""
    objects = {"account": who, "role": rights, "binding": binding(rights, who)}
    if lease_rights is not None:
        objects |= {"lease-role": lease_rights, "lease-binding": binding(lease_rights, who)}
    return objects


def config_map(name: str, app: str, namespace: str, data: Mapping[str, str]) -> Manifest:
    """Settings as files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, app, namespace),
        "data": dict(data),
    }


def daemon_set(
    name: str, app: str, namespace: str, pod: Manifest, annotations: Mapping[str, str] | None = None
) -> Manifest:
    """One pod per Linux node. A quarter restarts at once: one by one, a large lab would exceed the wait."""
    labels: Manifest = {"app.kubernetes.io/name": app, **PART_OF}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name, app, namespace),
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": app}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": labels, **({"annotations": dict(annotations)} if annotations else {})},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "priorityClassName": "system-node-critical",
                    "tolerations": TOLERATE_ALL,
                    "terminationGracePeriodSeconds": 10,
                    **pod,
                },
            },
        },
    }


def deployment(name: str, app: str, namespace: str, pod: Manifest) -> Manifest:
    """One pod on any node. The old one ends first, because both would need the same lease."""
    labels: Manifest = {"app.kubernetes.io/name": app, **PART_OF}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, app, namespace),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": app}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": CONTROL_PLANE_TOO, **pod},
            },
        },
    }


# Small clusters may have only workers with GPU taints, so controllers may run beside the control plane.
CONTROL_PLANE_TOO: list[JsonValue] = [
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
]


def resources(cpu: str, memory: str, memory_limit: str) -> Manifest:
    """Requests and a memory limit. No CPU limit: a throttled network agent delays every pod."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}


def unprivileged() -> Manifest:
    """For containers that only call the API or copy a file."""
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def host_folder(name: str, path: str, *, create: bool = False) -> Manifest:
    """A volume with a folder of the node. Use `create` only if nothing else creates it."""
    return {"name": name, "hostPath": {"path": path, **({"type": "DirectoryOrCreate"} if create else {})}}


def mount(name: str, path: str, propagation: str | None = None) -> Manifest:
    """A volume's place in the container."""
    return {"name": name, "mountPath": path, **({"mountPropagation": propagation} if propagation else {})}


def env_field(name: str, path: str) -> Manifest:
    """An environment variable with a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def ready_when(path: str, port: int) -> Manifest:
    """A readiness probe, so that a roll-out waits until the program answers."""
    return {"httpGet": {"path": path, "port": port}, "initialDelaySeconds": 2, "periodSeconds": 5}


def runs(command: str, *, period_s: int, failures: int) -> Manifest:
    """A probe by a shell command, which may take seconds to start on an overloaded node."""
    return {
        "exec": {"command": ["sh", "-c", command]},
        "periodSeconds": period_s,
        "timeoutSeconds": 25,
        "failureThreshold": failures,
    }


def through_registry(manifest: Manifest, registry: Registry) -> Manifest:
    """A DaemonSet or Deployment whose pods pull from the lab's mirrors, with its login."""
    spec, template = part(manifest, "spec"), part(part(manifest, "spec"), "template")
    pod: Manifest = dict(part(template, "spec"))
    for key in ("initContainers", "containers"):
        containers = pod.get(key)
        if isinstance(containers, list):
            pod[key] = [_pulled(container, registry) for container in containers]
    if registry.pull_secret:
        pod["imagePullSecrets"] = [{"name": registry.pull_secret}]
    return {**manifest, "spec": {**spec, "template": {**template, "spec": pod}}}


def in_parts(image: str, registry: Registry) -> Manifest:
    """An image as the operators' custom resources have it: repository, image, version, and the login."""
    name = registry.resolve(image)
    name, _, digest = name.partition("@")
    repository, _, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return {
        "repository": repository,
        "image": last,
        # both operators join a digest with @ and a tag with a colon
        "version": digest or tag,
        **({"imagePullSecrets": [registry.pull_secret]} if registry.pull_secret else {}),
    }


def part(of: Manifest, key: str) -> Manifest:
    found = of[key]
    if not isinstance(found, dict):
        raise TypeError(f"{key} is not a map")
    return found


def _pulled(container: JsonValue, registry: Registry) -> JsonValue:
    if not isinstance(container, dict):
        raise TypeError("a container is not a map")
    return {**container, "image": registry.resolve(str(container["image"]))}
