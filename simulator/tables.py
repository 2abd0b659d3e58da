"""The tables of `sim status` and `sim switch show`."""

from collections.abc import Sequence

from simulator.part import Status
from simulator.switch.client import PortState


def of_states(lines: Sequence[Status]) -> str:
    """A line per process; longer details follow indented."""
    rows = [
        (line.name, line.address, str(line.pid or "-"), line.state, "" if "\n" in line.detail else line.detail.strip())
        for line in lines
    ]
    texts = _aligned(("NAME", "ADDRESS", "PID", "STATE", ""), rows)
    for index in reversed(range(len(lines))):
        if "\n" in lines[index].detail:
            texts.insert(index + 2, lines[index].detail)
    return "\n".join(texts)


def of_ports(ports: Sequence[PortState]) -> str:
    """A line per port: cable, configuration, and counters."""
    rows = []
    for port in ports:
        config, counters = port.config, port.counters
        dropped = [f"{name.removeprefix('dropped_')} {n}" for name, n in counters.items() if name.startswith("dropped")]
        rows.append(
            (
                port.node,
                port.nic,
                "plugged" if config.plugged else "PULLED",
                str(config.native_vlan),
                ",".join(map(str, sorted(config.tagged_vlans))) or "-",
                str(config.mtu_bytes),
                f"{config.loss_percent:g}",
                f"{config.delay_ms:g}",
                str(counters.get("in_frames", 0)),
                str(counters.get("out_frames", 0)),
                ", ".join(dropped) or "-",
            )
        )
    header = ("NODE", "NIC", "CABLE", "NATIVE", "VLANS", "MTU", "LOSS %", "DELAY ms", "IN", "OUT", "DROPPED")
    return "\n".join(_aligned(header, rows))


def _aligned(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
