"""What the API server made of what was sent."""

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.plane.api import Api, ApiError

Kinds = Mapping[tuple[str, str], tuple[str, bool]]
"""(apiVersion, kind) -> (plural name, whether it lies in a namespace)."""

OURS = "app.kubernetes.io/part-of=rocelab"


def kinds_of(api: Api) -> Kinds:
    """All kinds that the server can list, by discovery."""
    groups = api.get("/apis") or {"groups": []}
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups["groups"])]
    return {
        (version, resource["kind"]): (resource["name"], resource["namespaced"])
        for version in versions
        for resource in (api.get(root(version)) or {"resources": []})["resources"]
        if "/" not in resource["name"] and "list" in resource["verbs"]
    }


def root(version: str) -> str:
    return "/api/v1" if version == "v1" else f"/apis/{version}"


def path_of(manifest: Mapping[str, Any], kinds: Kinds) -> str:
    plural, namespaced = kinds[manifest["apiVersion"], manifest["kind"]]
    metadata = manifest["metadata"]
    within = f"/namespaces/{metadata['namespace']}" if namespaced else ""
    return f"{root(manifest['apiVersion'])}{within}/{plural}/{metadata['name']}"


def left_of_us(api: Api) -> list[str]:
    """Every object with our label, and every definition that we bring."""
    groups = ("k8s.cni.cncf.io", "nv-ipam.nvidia.com/v1alpha1", "kubeflow.org/v2beta1")
    return labelled(api) + [f"{version} {kind}" for version, kind in kinds_of(api) if version.startswith(groups)]


def labelled(api: Api) -> list[str]:
    """Every object with our label."""
    return [
        f"{kind} {name}"
        for (version, kind), (plural, _) in kinds_of(api).items()
        for name in _labelled(api, f"{root(version)}/{plural}")
    ]


def _labelled(api: Api, path: str) -> list[str]:
    try:
        return [found["metadata"]["name"] for found in api.items(f"{path}?labelSelector={OURS}")]
    except ApiError as error:
        # a kind whose definition has just come or gone answers so for a moment
        if error.status in (404, 429):
            return []
        raise


def missing(sent: Any, live: Any, path: str = "") -> Iterator[str]:
    """Paths of what was sent and is not there, or is another value. What the server added does not count."""
    if isinstance(sent, dict) and isinstance(live, dict):
        for key, value in sent.items():
            if key in live:
                yield from missing(value, live[key], f"{path}.{key}")
            else:
                yield f"{path}.{key} is gone"
    elif isinstance(sent, list) and isinstance(live, list) and len(sent) == len(live):
        for position, (one, other) in enumerate(zip(sent, live, strict=True)):
            yield from missing(one, other, f"{path}[{position}]")
    elif sent != live:
        yield f"{path}: {sent!r} has become {live!r}"
