"""A host with routes and rules of policy routing, and a lab whose rails have gateways."""

import json
from pathlib import Path
from typing import Any

from components.hosts.program.machine import Done
from stacks.lab import Lab
from tests.components.hosts.kernel import FakeHost, done


def routed(lab: Lab, *gateways: str | None) -> Lab:
    given = lab.model_dump(mode="json")
    for rail, gateway in zip(given["rails"], gateways, strict=False):
        rail["host_gateway"] = gateway
    return Lab.model_validate(given)


class Router(FakeHost):
    """Knows tables and rules, in the form that `ip -j` of iproute2 6.1 prints."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.routes: list[dict[str, Any]] = [{"dst": "default", "gateway": "192.168.1.2", "dev": "enp0s3"}]
        self.rules: list[dict[str, Any]] = [{"priority": 0, "src": "all", "table": "local"}]
        self.table_names: dict[str, str] = {}
        """Of tables, as /etc/iproute2/rt_tables gives them by number; `ip` prints them unless it gets -N."""

    def answer(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("ip", "-N", "-4", "-j", "route", "show", "table", "all"):
                return done(json.dumps(self.routes))
            case ("ip", "-N", "-4", "-j", "rule", "show"):
                return done(json.dumps(self.rules))
            case ("ip", "-4", "-j", "route", "show", "table", "all"):
                return done(json.dumps([self._named(route) for route in self.routes]))
            case ("ip", "-4", "-j", "rule", "show"):
                return done(json.dumps([self._named(rule) for rule in self.rules]))
        return None

    def _named(self, entry: dict[str, Any]) -> dict[str, Any]:
        if "table" not in entry:
            return entry
        return {**entry, "table": self.table_names.get(entry["table"], entry["table"])}

    def _ip(self, words: list[str]) -> None:
        match words:
            case ["route", "add", dst, "dev", dev, "table", table, "protocol", protocol]:
                self.routes.append({"dst": dst, "dev": dev, "table": table, "protocol": protocol, "scope": "link"})
            case ["route", "add", dst, "via", gateway, "dev", dev, "table", table, "protocol", protocol]:
                assert any(r.get("table") == table and r["dst"] != "default" for r in self.routes), "unreachable"
                entry = {"dst": dst, "gateway": gateway, "dev": dev, "table": table, "protocol": protocol}
                self.routes.append(entry)
            case ["route", "add", dst, "via", gateway, "dev", dev, "table", "main", "metric", metric, "protocol", by]:
                entry = {"dst": dst, "gateway": gateway, "dev": dev, "protocol": by, "metric": int(metric)}
                self.routes.append(entry)
            case ["route", "del", dst, "dev", dev, "table", table]:
                self.routes.remove(
                    next(r for r in self.routes if (r["dst"], r["dev"], r.get("table", "main")) == (dst, dev, table))
                )
            case ["rule", "add", "from", src, "lookup", table, "preference", preference, "protocol", protocol]:
                entry = {"priority": int(preference), "src": src, "table": table, "protocol": protocol}
                self.rules.append(entry)
            case ["rule", "del", "from", src, "lookup", table, "preference", preference]:
                found = (int(preference), src, table)
                self.rules.remove(next(r for r in self.rules if (r["priority"], r["src"], r["table"]) == found))
            case _:
                super()._ip(words)
