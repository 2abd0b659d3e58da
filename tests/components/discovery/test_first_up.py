"""first-up.md: what hosts answered to the draft."""

from dataclasses import replace

from components.discovery.draft import Draft, draft_of
from components.discovery.first_up import as_markdown, probe_records
from components.discovery.questions import Answers
from components.hosts.calls import Report
from components.inventory.model import Inventory
from components.inventory.reading import known
from tests.components.discovery.spoilt import bare, each_pf, one_pf
from tests.components.hosts.fleet_hosts import conforming
from tests.messages import states


def drafted(inventory: Inventory) -> Draft:
    return draft_of(inventory, "pod1", "known_hosts", Answers(cluster="leave"))


def probed(draft: Draft, **different: object) -> dict[str, Report | str]:
    """Hosts that are as the draft says, but for the fields given."""
    assert draft.lab is not None
    return {
        name: Report(host=name, fields={**conforming(record.document), "driver": "loaded", **different})
        for name, record in probe_records(draft.lab, draft.hosts).items()
    }


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def cells(row: str) -> list[str]:
    """Effect, place and change of a row."""
    return [cell.strip() for cell in row.strip("|").split("|")]


ARP = "arp arp_ignore=0 arp_announce=0 rp_filter=0 → arp_ignore=1 arp_announce=2 rp_filter=2"


def test_hosts_that_are_as_drafted_change_in_nothing_but_the_unit() -> None:
    draft = drafted(bare(3, 2))

    text = as_markdown(draft, probed(draft, unit="missing"))

    assert rows(text) == []
    assert states(text, "3 hosts", "3 probed")


def test_changes_that_probes_show_are_folded_with_the_worst_effect_first() -> None:
    draft = drafted(bare(3, 2))
    probes = probed(draft, **{f"ens{k}np0.arp": "arp_ignore=0 arp_announce=0 rp_filter=0" for k in (1, 2)})
    second = probes["gpu02"]
    assert isinstance(second, Report)
    probes["gpu02"] = replace(second, fields={**second.fields, "ens1np0.mtu_bytes": 4200})

    found = rows(as_markdown(draft, probes))

    assert [cells(row)[1:] for row in found] == [
        ["gpu02 ens1np0", "mtu_bytes 4200 → 9000"],
        ["gpu[01-03] ens[1-2]np0", ARP],
    ]
    assert states(cells(found[0])[0], "link"), "the worst first"


def test_a_host_that_refuses_or_is_silent_is_named_with_the_reason() -> None:
    draft = drafted(bare(3, 2))
    probes = probed(draft)
    probes["gpu01"] = Report(host="gpu01", failed={"step": "owner", "reason": "belongs to lab x", "hint": "destroy x"})
    probes["gpu02"] = "198.18.0.2:22 does not answer"

    text = as_markdown(draft, probes)

    assert [line for line in text.splitlines() if states(line, "gpu01", "belongs to lab x", "destroy x")]
    assert [line for line in text.splitlines() if states(line, "gpu02", "198.18.0.2:22 does not answer")]


def test_without_probes_the_page_names_the_command_that_sends_some() -> None:
    text = as_markdown(drafted(bare(3, 2)), {})

    assert states(text, "3 hosts", "0 probed", "rocelab plan")
    assert rows(text) == []


def test_nodes_that_are_left_alone_are_named_and_not_asked() -> None:
    draft = drafted(one_pf(bare(4, 2), "gpu02", 1, mtu_bytes=known(1500, "sysfs")))

    text = as_markdown(draft, probed(draft))

    [line] = [line for line in text.splitlines() if states(line, "drained")]
    assert states(line, "gpu02")
    assert "gpu02" not in probed(draft)


def test_without_a_draft_the_page_says_so() -> None:
    draft = drafted(each_pf(bare(2, 2), lambda _n, _k, pf: replace(pf, addresses=known((), "ip"))))

    text = as_markdown(draft, {})
    assert rows(text) == []
    assert states(text, "questions.md")
