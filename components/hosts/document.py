"""The target state of a host, as the JSON document that the host program reads: pure functions of
the lab.
"""

import hashlib
import json
from functools import reduce

from pydantic import BaseModel, JsonValue

from components.hosts.program import steps
from components.hosts.program.places import DEADLINE_S, SCHEMA
from components.hosts.records import HostRecord, target_fields
from components.hosts.sections.guests import guest_sections
from components.hosts.sections.software import software_sections
from components.hosts.sections.system import routing_of, system_sections
from components.ssh.credentials import endpoint_of
from stacks.lab import Lab
from stacks.nodes import Node, Pf

MODULES = ("ib_umad", "rdma_ucm")
"""perftest and rdma_cm need them, and no driver loads them by itself."""
SOFT_ROCE_MODULE = "rdma_rxe"


def host_document(lab: Lab, node: Node) -> dict[str, JsonValue]:
    """The document of a node; the same lab gives the same text."""
    soft = any(pf.soft_roce for pf in node.pfs)
    # sections that the lab file does not use are omitted, so a new kind of section changes no
    # existing document
    sections: dict[str, JsonValue | None] = {
        **repeated_sections(lab),
        **system_sections(lab, node),
        **software_sections(lab, node),
        **guest_sections(lab, node),
        "may_stage": lab.hosts.reboot != "never" or None,
        "may_reboot": lab.hosts.reboot == "roll" or None,
    }
    document: dict[str, JsonValue] = {
        "schema": SCHEMA,
        "lab": lab.name,
        "host": node.name,
        "management_interface": node.management_interface,
        "modules": [*MODULES, *([SOFT_ROCE_MODULE] if soft else [])] if node.pfs else [],
        "rdma_namespaces": lab.hosts.rdma_namespaces,
        "revert_after_s": lab.hosts.revert_after_s,
        **{key: section for key, section in sections.items() if section is not None},
        "pfs": [_pf_document(lab, pf) for pf in node.pfs],
    }
    if deadline_s(document) > DEADLINE_S:
        document["deadline_s"] = deadline_s(document)
    return document


def target_record(lab: Lab, node: Node, host_key: str, owner: str = "") -> HostRecord:
    """The target state of a node. With an owner, the host refuses every other one."""
    document = host_document(lab, node)
    if owner:
        document["owner"] = owner
    # not by default: there an error in a step counts as a document of another version
    fields = target_fields(document) if node.state == "active" else {}
    return HostRecord(
        state=node.state,
        formerly=node.formerly,
        endpoint=endpoint_of(lab, node, host_key),
        fields=fields,
        document=document,
    )


def owner_of(lab: Lab, stack: str) -> str:
    """The owner that a host records."""
    return f"lab {lab.name} of stack {stack}"


def repeated_sections(lab: Lab) -> dict[str, JsonValue]:
    """The sections that repeat a field of the lab file, for the steps that name one."""
    sections: dict[str, JsonValue] = {}
    for step in (step for step in steps.STEPS if step.setting):
        *above, field = step.setting.split(".")
        section: BaseModel = reduce(getattr, above, lab)
        if getattr(section, field) != type(section).model_fields[field].get_default():
            sections[step.name] = section.model_dump(mode="json", include={field})[field]
    return sections


def deadline_s(document: dict[str, JsonValue]) -> int:
    """Deadline of a run on a host: packages and driver builds take minutes, everything else takes
    seconds.
    """
    return DEADLINE_S + sum(step.takes_s(document) for step in steps.STEPS)


def document_text(document: dict[str, JsonValue]) -> str:
    """The text on stdin, readable in a preview's diff."""
    return json.dumps(document, indent=1) + "\n"


def vf_layout(lab: Lab) -> str:
    """Digest of the VFs: it changes when VFs are added, removed or moved to another rail."""
    layout = [
        (node.name, pf.interface, pf.rail, pf.vfs) for node in lab.active_nodes for pf in node.pfs
    ]
    return hashlib.sha256(json.dumps(layout).encode()).hexdigest()[:16]


def _pf_document(lab: Lab, pf: Pf) -> dict[str, JsonValue]:
    return {
        "interface": pf.interface,
        "driver": pf.driver,
        "address": str(pf.address),
        "mtu_bytes": lab.rail(pf.rail).mtu_bytes,
        "vfs": pf.vfs,
        "rdma_device": pf.rdma_device,
        "soft_roce": pf.soft_roce,
        **({"pci": pf.pci} if pf.pci else {}),
        **routing_of(lab, pf),
        **_vf_owner(lab),
    }


def _vf_owner(lab: Lab) -> dict[str, JsonValue]:
    """Marks VFs that an operator creates, so that the host program does not change their number."""
    operated = lab.cluster is not None and lab.cluster.delivery.profile == "sriov_operator"
    return {"vf_owner": "operator"} if operated else {}
