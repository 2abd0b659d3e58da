"""What the first `pulumi up` of a draft changes per host, as probes with the draft say."""

from collections.abc import Iterator, Mapping

from components.discovery.draft import Draft
from components.discovery.questions import names
from components.hosts.calls import Report
from components.hosts.document import target_record
from components.hosts.plan import Answers, plan_of, remarks, table
from components.hosts.records import HostRecord
from components.inventory.model import Host
from stacks.lab import Lab


def probe_records(lab: Lab, hosts: Mapping[str, Host]) -> dict[str, HostRecord]:
    """The record of each active node, whose document a probe sends."""
    nodes = [node for node in lab.active_nodes if node.name in hosts]
    return {node.name: target_record(lab, node, hosts[node.name].host_key) for node in nodes}


def as_markdown(draft: Draft, probes: Answers) -> str:
    """first-up.md."""
    lines = [f"# {draft.name}: what the first `pulumi up` changes", ""]
    if draft.lab is None:
        why = "no rail is decided, so there is no draft. questions.md says what is open."
        return "\n".join([*lines, f"Nothing: {why}", ""])
    lab = draft.lab
    plans = {}
    for name, record in probe_records(lab, draft.hosts).items():
        probe = probes.get(name)
        if isinstance(probe, Report):
            plans[name] = plan_of(record, probe)
    lines += [f"{len(lab.active_nodes)} hosts, {len(plans)} probed with the draft.", ""]
    lines += [*_always(lab), ""]
    if probes:
        lines += [*table(plans)] or ["No setting of a host changes."]
    else:
        lines.append("To see what changes, probe the hosts: `rocelab plan`.")
    lines += ["", *remarks(plans, probes)]
    if draft.drained:
        lines.append(f"- Left alone (drained): {names(draft.drained)}. questions.md says why.")
    return "\n".join([*lines, ""]).replace("\n\n\n", "\n\n")


def _always(lab: Lab) -> Iterator[str]:
    yield (
        "- Every host gets a unit with its program and settings, and an owner file; "
        "`pulumi destroy` removes them."
    )
    yield "- No host reboots. Drivers, firmware, QoS and switches are not touched."
    if lab.benchmarks is not None:
        yield (
            "- The run then measures the rails once, which puts load on them. It measures nothing "
            "while another program uses them. To measure nothing, set `benchmarks: {mode: off}`."
        )
    if lab.cluster is not None:
        profile = lab.cluster.delivery.profile
        yield f"- The cluster gets the agents of `cluster.delivery: {profile}`."
        yield (
            "- Before it, give the stack the cluster's login: "
            "`pulumi config set --secret rocelab:kubeconfig < FILE`."
        )
