"""The Kubernetes cluster, read with GET requests only."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain
from typing import TypeVar, cast

from pydantic import JsonValue

from components.inventory.model import (
    Attachment,
    Cluster,
    CustomObject,
    DaemonSet,
    KubeNode,
)
from components.inventory.reading import Reading, known, unknown
from components.kubernetes.client import ApiError, KubernetesApi, Object, at

T = TypeVar("T")

PAGE = "500"
"""Objects of one answer: those of a large cluster would fill the memory at once."""
MOST_PAGES = 200
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
SRIOV, MELLANOX, NV_IPAM = (
    "/apis/sriovnetwork.openshift.io/v1",
    "/apis/mellanox.com/v1alpha1",
    "/apis/nv-ipam.nvidia.com/v1alpha1",
)


def look_at_cluster(kubeconfig: str) -> Cluster:
    """The cluster of a kubeconfig; what it refuses is unknown.

    Raises:
        LabError: when the kubeconfig cannot be used.
    """
    with KubernetesApi(kubeconfig) as api:
        return look(api)


def look(api: KubernetesApi) -> Cluster:
    """All that an inventory has of a cluster."""
    read_at = datetime.now(UTC)
    try:
        api.get("/version")
    except ApiError as error:
        return Cluster(server=api.server, unread=str(error))
    reader = _Reader(api)
    return Cluster(
        server=api.server,
        read_at=read_at,
        nodes=reader.all("/api/v1/nodes", _node),
        attachments=reader.all(
            "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", _attachment
        ),
        sriov_node_states=reader.all(f"{SRIOV}/sriovnetworknodestates", _custom),
        sriov_policies=reader.all(f"{SRIOV}/sriovnetworknodepolicies", _custom),
        nic_cluster_policies=reader.all(f"{MELLANOX}/nicclusterpolicies", _custom),
        ip_pools=reader.all(f"{NV_IPAM}/ippools", _custom),
        daemon_sets=reader.all("/apis/apps/v1/daemonsets", _daemon_set),
        service_cidrs=_service_cidrs(reader),
    )


class _Reader:
    """Collections, page by page."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def all(self, path: str, take: Callable[[Object], T | None]) -> Reading[tuple[T, ...]]:
        """What `take` makes of each object; None leaves it out."""
        source = f"GET {path}"
        objects: list[T] = []
        more = ""
        try:
            for _ in range(MOST_PAGES):
                page = self._api.get(path, {"limit": PAGE, **({"continue": more} if more else {})})
                items = cast(list[Object], page["items"]) if page else []
                objects += [taken for taken in map(take, items) if taken is not None]
                more = _text(page, "metadata", "continue")
                if not more:
                    return known(tuple(objects), source)
        except ApiError as error:
            return unknown(str(error), source)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return unknown(
                f"the answer has an unknown format: {type(error).__name__}: {error}"[:160], source
            )
        return unknown(f"there are more than {MOST_PAGES * int(PAGE)} objects", source)


def _service_cidrs(reader: _Reader) -> Reading[tuple[str, ...]]:
    """Served since Kubernetes 1.33; before, only the API server's own arguments have it."""
    path = "/apis/networking.k8s.io/v1/servicecidrs"
    by_object = reader.all(path, lambda item: _texts(at(item, "spec", "cidrs")))
    cidrs = by_object.map(lambda objects: tuple(chain.from_iterable(objects)))
    if cidrs.is_known and not cidrs.value:
        return unknown("this cluster serves no ServiceCIDR", cidrs.source)
    return cidrs


def _node(item: Object) -> KubeNode:
    addresses = _list(at(item, "status", "addresses"))
    internal = [address for address in addresses if at(address, "type") == "InternalIP"]
    return KubeNode(
        name=_text(item, "metadata", "name"),
        internal_ips=tuple(_text(address, "address") for address in internal),
        allocatable=_strings(at(item, "status", "allocatable")),
        capacity=_strings(at(item, "status", "capacity")),
        pod_cidrs=_texts(at(item, "spec", "podCIDRs")),
    )


def _attachment(item: Object) -> Attachment:
    return Attachment(
        namespace=_text(item, "metadata", "namespace"),
        name=_text(item, "metadata", "name"),
        resource_name=_strings(at(item, "metadata", "annotations")).get(RESOURCE_NAME, ""),
        config=_json(_text(item, "spec", "config")),
    )


def _custom(item: Object) -> CustomObject:
    return CustomObject(
        namespace=_text(item, "metadata", "namespace"),
        name=_text(item, "metadata", "name"),
        spec=_object(at(item, "spec")),
        status=_object(at(item, "status")),
    )


def _daemon_set(item: Object) -> DaemonSet:
    return DaemonSet(
        namespace=_text(item, "metadata", "namespace"), name=_text(item, "metadata", "name")
    )


def _text(value: JsonValue, *path: str) -> str:
    leaf = at(value, *path)
    return "" if leaf is None else str(leaf)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(map(str, _list(value)))


def _object(value: JsonValue) -> Object:
    return value if isinstance(value, dict) else {}


def _strings(value: JsonValue) -> dict[str, str]:
    return {key: str(text) for key, text in _object(value).items()}


def _json(text: str) -> Object:
    try:
        return _object(json.loads(text))
    except ValueError:
        return {}
