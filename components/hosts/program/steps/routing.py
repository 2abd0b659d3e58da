"""Routing of a routed rail: packets with a PF's source address leave through that PF and its
router.

One default route serves one NIC. With several, answers of the second rail would go to the first
rail's router.
"""

import json
from typing import Any, Dict, List, Set

from ..host import Document, Host
from ..machine import StepError
from ..step import Before, Fields, Pf, PfStep

PROTOCOL = "114"
"""Marks routes and rules of rocelab; others in the same table are left alone."""
FIRST_PREFERENCE = 10_000
"""Of the first rule: after those of network plugins, which begin at 0 or 100, and before the main
table at 32766."""


IP = ("ip", "-N", "-4", "-j")
"""With -N, a table that rt_tables names has its number, too."""


class Routing(PfStep):
    """A table and a rule per PF. No other traffic uses them, so a revert does not need to restore
    them.
    """

    name = "routing"
    order = 520
    at_boot = True
    waits_for = ("kernel_arguments", "driver", "firmware", "link_layer")
    effects = {"routing": "link"}

    def target_of(self, document: Document, pf: Pf) -> Fields:
        routed = any("routing" in other for other in document["pfs"])
        return {"routing": "; ".join(_lines(pf)) or "none"} if routed else {}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        return {"routing": "; ".join(_lines_in_effect(host, pf)) or "none"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for pf in host.pfs_of(wrong):
            _refuse_a_table_in_use(host, pf)
            host.ip_batch([*_removal(host, pf["interface"]), *map(_added, _lines(pf))])

    def before_pf(self, host: Host, pf: str) -> Before:
        return {}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        host.ip_batch(_removal(host, pf))


def _lines(pf: Pf) -> List[str]:
    """Routes and rule of a PF, in the words of `ip`; none for a rail without router."""
    if "routing" not in pf:
        return []
    name, address, routing = pf["interface"], pf["address"].partition("/")[0], pf["routing"]
    table = routing["table"]
    lines = [
        f"{routing['subnet']} dev {name} table {table}",
        f"default via {routing['gateway']} dev {name} table {table}",
        f"from {address} lookup {table}",
    ]
    if "range" in routing:  # the metric keeps rails apart whose ranges are one
        lines.insert(
            0, f"{routing['range']} via {routing['gateway']} dev {name} table main metric {table}"
        )
    return lines


def _added(line: str) -> str:
    """The `ip` command that creates a line's route or rule."""
    if line.startswith("from"):
        table = int(line.rpartition(" ")[2])
        return f"rule add {line} preference {FIRST_PREFERENCE + table} protocol {PROTOCOL}"
    return f"route add {line} protocol {PROTOCOL}"


def _lines_in_effect(host: Host, pf: Pf) -> List[str]:
    """The lines in effect, including another router or an extra route."""
    name, lines, tables = pf["interface"], [], set()
    for route in _routes(host):
        if _is_ours(route) and route.get("dev") == name:
            tables.add(route["table"])
            via = f" via {route['gateway']}" if "gateway" in route else ""
            metric = f" metric {route['metric']}" if "metric" in route else ""
            lines.append(f"{route['dst']}{via} dev {name} table {route['table']}{metric}")
    lines.sort(key=lambda line: (line.startswith("default"), " table main" not in line))
    if "routing" in pf:
        tables = {str(pf["routing"]["table"])}
    for rule in _rules(host):
        if rule["table"] in tables:
            lines.append(f"from {_source(rule)} lookup {rule['table']}")
    return lines


def _removal(host: Host, pf: str) -> List[str]:
    """Removes rocelab's routes of a PF, and its rules for tables without a route."""
    routes = [route for route in _routes(host) if _is_ours(route)]
    own = [route for route in routes if route.get("dev") == pf]
    others = {route["table"] for route in routes if route not in own}
    rules = [rule for rule in _rules(host) if rule["table"] not in others]
    lines = []
    for rule in rules:
        place = f"lookup {rule['table']} preference {rule['priority']}"
        lines.append(f"rule del from {_source(rule)} {place}")
    for route in reversed(own):
        lines.append(f"route del {route['dst']} dev {pf} table {route['table']}")
    return lines


def _refuse_a_table_in_use(host: Host, pf: Pf) -> None:
    table = str(pf["routing"]["table"]) if "routing" in pf else ""
    foreign = [route for route in _routes(host) if route["table"] == table and not _is_ours(route)]
    if foreign:
        raise StepError(
            f"routing table {table} is in use: {foreign[0].get('dst')} dev {foreign[0].get('dev')}",
            f"empty it (ip route show table {table}); rails use the tables from 100 on, in order",
        )


def _routes(host: Host) -> List[Dict[str, Any]]:
    """Routes of all tables; `ip` leaves main unnamed."""
    return [{"table": "main", **route} for route in _listed(host, "route", "show", "table", "all")]


def _rules(host: Host) -> List[Dict[str, Any]]:
    return [rule for rule in _listed(host, "rule", "show") if _is_ours(rule)]


def _listed(host: Host, *words: str) -> List[Dict[str, Any]]:
    printed = host.remembered(words[0], lambda: host.machine.must(*IP, *words))
    return list(json.loads(printed or "[]"))


def _is_ours(entry: Dict[str, Any]) -> bool:
    return bool(entry.get("protocol") == PROTOCOL)


def _source(rule: Dict[str, Any]) -> str:
    return f"{rule['src']}/{rule['srclen']}" if "srclen" in rule else str(rule["src"])
