"""Quality of service of RoCE on each PF: trust, priorities, flow control, congestion control, and
what marks packets.

VFs inherit trust and flow control of their PF, and the kernel refuses both on a VF. They do not
inherit the traffic class: jobs set it themselves (NCCL_IB_TC).
"""

from typing import Any, Dict, Set, Tuple

from ..host import Document, Host
from ..machine import StepError
from ..qos import (
    DCB,
    OS,
    RDMA_CM,
    Aspects,
    cnp_files,
    map_of,
    map_text,
    nic_aspects,
    open_rdma_cm,
    pause_aspect,
    port_aspects,
    priorities_text,
    rdma_cm_aspects,
    set_pause,
    set_port,
    set_rdma_cm,
)
from ..step import Before, Fields, Pf, PfStep, section_of

RDMA_CM_ASPECTS = ("roce_mode", "roce_tos")
PORT_ASPECTS = ("dcbx", "trust", "dscp_map", "pfc")
TRUSTS = ("dscp", "pcp")
ECN_ON = "np=1 rp=1"
"""Notification point and reaction point: this end notifies others, and slows down when it is
notified."""
NEVER_LEFT_OUT = (*RDMA_CM_ASPECTS, "trust", "dscp_map", "pfc")
"""Aspects that every host must be able to set."""


class QualityOfService(PfStep):
    """All of it vanishes at boot, so the unit sets it again.

    A soft-RoCE device marks what rdma_cm connects; the NIC under it has no trust, priorities or
    congestion control. What a driver can neither show nor set stays unchanged and is named in the
    facts.
    """

    name = "qos"
    order = 580
    at_boot = True
    keeps = ("qos", "roce_qos")
    waits_for = ("kernel_arguments", "driver", "firmware", "link_layer")
    effects = {
        **dict.fromkeys((*PORT_ASPECTS, "global_pause"), "link"),
        **dict.fromkeys((*RDMA_CM_ASPECTS, "traffic_class", "ecn", "cnp"), "none"),
    }

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {**_target(document, pf)}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        _, aspects = _observed(host, pf)
        fields: Fields = {}
        for aspect, value in _target(host.document, pf).items():
            unset = "none" if aspect in NEVER_LEFT_OUT else value
            actual = aspects.get(aspect, unset)
            if aspect == "dscp_map" and aspects["trust"] in TRUSTS:
                mapping = map_of(actual)
                ours = {dscp: mapping[dscp] for dscp in map_of(value) if dscp in mapping}
                actual = map_text(ours) or "none"
            fields[aspect] = actual
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for pf in host.pfs_of(wrong):
            name, target = pf["interface"], _target(host.document, pf)
            chosen = {aspect: target[aspect] for aspect in target if f"{name}.{aspect}" in wrong}
            tool, aspects = _observed(host, pf)
            if set(chosen) & set(PORT_ASPECTS) and not tool:
                raise StepError(
                    f"{name}: trust and flow control: {aspects['trust']}",
                    "install dcb (iproute2 5.10 or newer); a NIC without them cannot carry RoCE "
                    "with qos",
                )
            _set(host, pf, tool, chosen)
        host.forget()

    def facts(self, host: Host) -> Dict[str, Any]:
        """The tool of each PF, what it cannot show, and a summary that differs when settings do."""
        forms = {}
        for pf in host.pfs:
            tool, aspects = _observed(host, pf)
            target = _target(host.document, pf)
            left = ", ".join(aspect for aspect in target if aspect not in aspects)
            form = tool or "no tool"
            if pf["soft_roce"]:
                form = "soft-RoCE: global pause and marks of rdma_cm alone"
            forms[pf["interface"]] = f"{form}; not shown here: {left}" if left else form
        return {"qos": forms, "roce_qos": _summary(host.document["qos"])}

    def before_pf(self, host: Host, pf: str) -> Before:
        known = next(known for known in host.pfs if known["interface"] == pf)
        folder = f"{RDMA_CM}/{known['rdma_device']}"
        if host.machine.exists(folder):
            return _recorded(host, known)
        try:
            open_rdma_cm(host, known["rdma_device"])
            return _recorded(host, known)
        except StepError:
            return _recorded(host, known)  # a device that this program makes and removes
        finally:
            host.machine.remove(folder)
            host.forget()

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        tool, current = _observed(host, before)
        aspects = {}
        for key, value in before["aspects"].items():
            if current.get(key, value) != value and value != "default":
                aspects[key] = value
        if aspects.get("trust", "dscp") not in TRUSTS or not tool:
            aspects = {key: value for key, value in aspects.items() if key not in PORT_ASPECTS}
        elif "dscp_map" in aspects:
            if tool == DCB:
                # empties the table; restoring a code point restores the trust
                aspects["trust"] = "pcp"
            else:
                old, new = map_of(aspects["dscp_map"]), map_of(current["dscp_map"])
                changed = {dscp: old[dscp] for dscp in old if new.get(dscp) != old[dscp]}
                aspects["dscp_map"] = map_text(changed)
        _set(host, before, tool, aspects)
        host.machine.remove(f"{RDMA_CM}/{before['rdma_device']}")
        host.forget()


def _recorded(host: Host, pf: Pf) -> Before:
    """What an undo needs, also when the document no longer names the PF."""
    known = {key: pf[key] for key in ("interface", "rdma_device", "soft_roce")}
    return {**known, "priority": _priority(host, pf), "aspects": _observed(host, pf)[1]}


def _target(document: Document, pf: Pf) -> Aspects:
    """Every aspect of a PF as the document asks for it; none when it does not."""
    qos = document.get("qos")
    if not qos:
        return {}
    target = {"global_pause": "off", "roce_mode": qos["roce_mode"], "roce_tos": str(qos["tos"])}
    if pf["soft_roce"]:
        return target
    return {
        "dcbx": OS,
        "trust": "dscp",
        "dscp_map": map_text({qos["dscp"]: qos["priority"], qos["cnp_dscp"]: qos["cnp_priority"]}),
        "pfc": priorities_text(qos["pfc_priorities"]),
        "ecn": ECN_ON,
        "cnp": f"{qos['cnp_dscp']}:{qos['cnp_priority']}",
        "traffic_class": str(qos["tos"]),
        **target,
    }


def _observed(host: Host, pf: Pf) -> Tuple[str, Aspects]:
    name, device = pf["interface"], pf["rdma_device"]

    def look() -> Tuple[str, Aspects]:
        aspects = {**rdma_cm_aspects(host, device), **pause_aspect(host, name)}
        if pf["soft_roce"]:
            return "", aspects
        tool, port = port_aspects(host, name)
        return tool, {**aspects, **port, **nic_aspects(host, name, device, _priority(host, pf))}

    aspects: Tuple[str, Aspects] = host.remembered(f"qos {name} {device}", look)
    return aspects


def _priority(host: Host, pf: Pf) -> int:
    """Priority of RoCE: at an undo the one that was recorded, else the document's."""
    if "priority" in pf:
        return int(pf["priority"])
    return int(section_of(host.document, "qos").get("priority", 0))


def _set(host: Host, pf: Pf, tool: str, chosen: Aspects) -> None:
    name, device, write = pf["interface"], pf["rdma_device"], host.machine.write
    port = {aspect: chosen[aspect] for aspect in PORT_ASPECTS if aspect in chosen}
    if port:
        set_port(host, name, tool, port)
    if "global_pause" in chosen:
        set_pause(host, name, chosen["global_pause"])
    for pair in chosen.get("ecn", "").split():
        role, value = pair.split("=")
        write(f"/sys/class/net/{name}/ecn/roce_{role}/enable/{_priority(host, pf)}", value)
    if "cnp" in chosen:
        for file, value in zip(cnp_files(host, name), chosen["cnp"].split(":")):
            write(file, value)
    if "traffic_class" in chosen:
        write(f"/sys/class/infiniband/{device}/tc/1/traffic_class", chosen["traffic_class"])
    rdma_cm = {aspect: chosen[aspect] for aspect in RDMA_CM_ASPECTS if aspect in chosen}
    if rdma_cm:
        set_rdma_cm(host, device, rdma_cm)


def _summary(declared: Dict[str, Any]) -> str:
    mode = "lossless" if declared["pfc_priorities"] else "lossy"
    return (
        f"{mode}, DSCP {declared['dscp']} on {declared['priority']}, CNP {declared['cnp_dscp']} on "
        f"{declared['cnp_priority']}, TOS {declared['tos']}"
    )
