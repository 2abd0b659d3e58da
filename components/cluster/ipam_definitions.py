"""The kinds of nv-ipam 0.4 (`nv-ipam.nvidia.com/v1alpha1`), written from the fields of its API.

Its release has no Go module that every lab can reach, and the kinds are small. CIDRPool is here because the programs
watch it; no CIDRPool is ever made.
"""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from components.cluster.ipam import GROUP
from components.cluster.manifests import PART_OF, Manifest

TEXT: Manifest = {"type": "string"}
WHOLE: Manifest = {"type": "integer"}
INDEX: Manifest = {"type": "integer", "format": "int32", "minimum": 0}


def render_pool_definitions() -> dict[str, Manifest]:
    """IPPool (blocks of one subnet) and CIDRPool (a subnet per node)."""
    ip_pool = _object(
        {"subnet": TEXT, "perNodeBlockSize": WHOLE, "gateway": TEXT, **_common()}, ["subnet", "perNodeBlockSize"]
    )
    ip_allocation = _object({"nodeName": TEXT, "startIP": TEXT, "endIP": TEXT}, ["nodeName", "startIP", "endIP"])
    cidr_pool = _object(
        {
            "cidr": TEXT,
            "perNodeNetworkPrefix": {"type": "integer", "format": "int32"},
            "gatewayIndex": {"type": "integer", "format": "int32"},
            "staticAllocations": _list(_object({"nodeName": TEXT, "gateway": TEXT, "prefix": TEXT}, ["prefix"])),
            **_common(),
        },
        ["cidr", "perNodeNetworkPrefix"],
    )
    cidr_allocation = _object({"nodeName": TEXT, "gateway": TEXT, "prefix": TEXT}, ["nodeName", "prefix"])
    return {
        "ippools": _definition("IPPool", "ippools", ip_pool, ip_allocation),
        "cidrpools": _definition("CIDRPool", "cidrpools", cidr_pool, cidr_allocation),
    }


def _definition(kind: str, plural: str, spec: Manifest, allocation: Manifest) -> Manifest:
    status = _object({"allocations": _list(allocation)}, ["allocations"])
    top: Manifest = {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"type": "object"},
        "spec": spec,
        "status": status,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": PART_OF},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    # allocations are the controller's: whoever sets the spec cannot touch them
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": _object(top, ["spec"])},
                }
            ],
        },
    }


def _common() -> Manifest:
    """Fields that both kinds of pool have."""
    requirement = _object({"key": TEXT, "operator": TEXT, "values": _list(TEXT)}, ["key", "operator"])
    term = _object({"matchExpressions": _list(requirement), "matchFields": _list(requirement)})
    in_order: JsonValue = [
        {"rule": "self.endIndex >= self.startIndex", "message": "endIndex must not lie before startIndex"}
    ]
    return {
        "exclusions": _list(_object({"startIP": TEXT, "endIP": TEXT}, ["startIP", "endIP"])),
        "perNodeExclusions": _list(
            {
                **_object({"startIndex": INDEX, "endIndex": INDEX}, ["startIndex", "endIndex"]),
                "x-kubernetes-validations": in_order,
            }
        ),
        "nodeSelector": _object({"nodeSelectorTerms": _list(term)}, ["nodeSelectorTerms"]),
        "defaultGateway": {"type": "boolean"},
        "routes": _list(_object({"dst": TEXT}, ["dst"])),
    }


def _object(properties: Mapping[str, JsonValue], required: Sequence[str] = ()) -> Manifest:
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": list(required)} if required else {}),
    }


def _list(item: Manifest) -> Manifest:
    return {"type": "array", "items": item}
