"""What the lab is made of, how its MTUs fit together, and what its counters say."""

from collections.abc import Iterator

from components.report.html.parts import section
from components.report.html.tags import Content, Html, number_cell, table, tag
from components.report.shapes import MtuLink, mtu_chains
from components.report.sources import Material
from components.validation.records import HostFacts, RunRecord
from stacks.words import plural, some

UNKNOWN = "unknown"


def sections(material: Material) -> Iterator[Html]:
    """What there is of it."""
    if material.record and material.record.hosts:
        yield _hosts(material.record.hosts)
    if chains := mtu_chains(material.document) if material.document else []:
        yield _mtus(chains)
    if material.record:
        yield from _counters(material.record)


def _hosts(hosts: dict[str, HostFacts]) -> Html:
    """Hosts that are alike share a line, so that the odd one stands out."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, facts in hosts.items():
        alike.setdefault(_described(facts), []).append(name)
    rows = [
        (_named(names), *described)
        for described, names in sorted(alike.items(), key=lambda each: (-len(each[1]), each[1]))
    ]
    head = ("hosts", "NIC", "driver", "firmware", "kernel", "perftest", "link, Gbit/s", "PCIe", "NUMA")
    kinds = "one kind" if len(rows) == 1 else f"{len(rows)} kinds, the odd ones last"
    return section(
        "Inventory", "inventory", tag("p", f"{plural(len(hosts), 'host')}, {kinds}.", class_="lead"), table(head, rows)
    )


def _described(facts: HostFacts) -> tuple[str, ...]:
    return (
        *(text or UNKNOWN for text in (facts.nic, facts.driver, facts.firmware, facts.kernel, facts.perftest)),
        _per_device({device: f"{rate:g}" for device, rate in facts.line_rate_gbit_s.items()}),
        _per_device(facts.pcie),
        _per_device({device: str(node) for device, node in facts.numa_node.items()}),
    )


def _per_device(values: dict[str, str]) -> str:
    """One text where all devices agree."""
    if not values:
        return UNKNOWN
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{device} {value}" for device, value in sorted(values.items()))


def _named(names: list[str]) -> Content:
    if len(names) <= 4:
        return ", ".join(names)
    return tag("details", tag("summary", some(names, 1)), ", ".join(names))


def _mtus(chains: list[tuple[MtuLink, ...]]) -> Html:
    head = ("rail", *(link.what for link in chains[0]))
    rows = [(links[0].rail, *(_link(link) for link in links)) for links in chains]
    told = (
        "A rail carries the smallest MTU on the way, and RDMA rounds it down to a power of two after taking 96 bytes "
        "off: 4200 or more give the path MTU 4096. The last column is what the queue pairs used."
    )
    return section("Chain of MTUs", "mtu", tag("p", told, class_="lead"), table(head, rows))


def _link(link: MtuLink) -> Content:
    return [link.text or UNKNOWN, [" ", tag("span", link.fault, class_="chip fail")] if link.fault else None]


def _counters(record: RunRecord) -> Iterator[Html]:
    """Per counter and rail, with the pair that did most of it."""
    grew: dict[tuple[str, str], dict[str, int]] = {}
    for transfer in record.transfers:
        for name, count in transfer.counters.items():
            pairs = grew.setdefault((name, transfer.rail), {})
            pair = f"{transfer.client} to {transfer.server}"
            pairs[pair] = pairs.get(pair, 0) + count
    if not grew:
        return
    rows = [
        (name, rail, number_cell(_grouped(sum(pairs.values()))), number_cell(str(len(pairs))), _most(pairs))
        for (name, rail), pairs in sorted(grew.items(), key=lambda each: (-sum(each[1].values()), each[0]))
    ]
    told = "Error and congestion counters of the ports that grew while transfers ran."
    shown = table(("counter", "rail", "grew by", "pairs", "most of it"), rows)
    yield section("Counters", "counters", tag("p", told, class_="lead"), shown)


def _most(pairs: dict[str, int]) -> str:
    pair = max(sorted(pairs), key=lambda name: pairs[name])
    return f"{pair}: {_grouped(pairs[pair])}"


def _grouped(count: int) -> str:
    """With narrow spaces between thousands."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
