"""Folding is the other way round of expanding, whatever the lab is like."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.discovery.draft import are_alike, draft_of
from components.discovery.folding import fold
from components.discovery.questions import Answers
from components.inventory.model import Inventory
from components.inventory.reading import known
from stacks.read import expanded_lab
from tests.components.discovery.spoilt import address, bare, each_pf, one_pf
from tests.components.inventory.fabricate import changed, fabricate
from tests.labs import lab_of


def irregular(dice: Random) -> Inventory:
    """A cluster as years leave it: gaps, replaced NICs, moved addresses, missing VFs, switches or none."""
    hosts, rails = dice.randint(5, 12), dice.randint(1, 5)
    inventory = fabricate(hosts, rails, cluster=False) if dice.random() < 0.5 else bare(hosts, rails)
    if dice.random() < 0.3:
        first = dice.randint(0, 3)
        inventory = each_pf(
            inventory, lambda n, k, pf: replace(pf, addresses=address(f"172.16.{8 * k}.{2 * (n + first)}/31"))
        )
    for _ in range(dice.randint(0, 5)):
        node, rail = f"gpu{dice.randint(1, hosts):02}", dice.randint(1, rails)
        values = dice.choice(
            [
                {"interfaces": known((f"enp{rail}s{dice.randint(0, 9)}",), "sysfs")},
                {"vfs_num": known(dice.randint(0, 8), "sysfs")},
                {"mtu_bytes": known(4200, "sysfs")},
                {"rdma": known((), "sysfs"), "vendor_id": known("8086", "sysfs")},
            ]
        )
        inventory = one_pf(inventory, node, rail, **values)
    for _ in range(dice.randint(0, 3)):
        number = dice.randint(1, hosts)
        moved = f"198.18.{dice.randint(7, 9)}.{100 + number}"  # two hosts with one address are no lab
        inventory = changed(inventory, f"gpu{number:02}", lambda host, to=moved: replace(host, address=to))
    gone = {f"gpu{dice.randint(1, hosts):02}" for _ in range(dice.randint(0, 2))}
    return replace(inventory, hosts=tuple(host for host in inventory.hosts if host.name not in gone))


@settings(max_examples=20)
@given(dice=st.randoms())
def test_a_folded_lab_expands_to_the_very_same_lab(dice: Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    draft = draft_of(irregular(dice), "pod1", "known_hosts", Answers(cluster="leave"))
    assert draft.lab is not None
    file = tmp_path_factory.mktemp("drafts") / "Pulumi.pod1.yaml"
    file.write_text(draft.text)
    flat = expanded_lab(file)

    folded = fold(flat, {node["name"]: "server" for node in flat["nodes"]})

    assert are_alike(lab_of(folded), draft.lab)
    assert are_alike(lab_of(flat), draft.lab)
