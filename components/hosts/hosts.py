"""Hosts: per host the program and the command that starts it, then the Fleet, which manages all of
them.
"""

import asyncio
import hashlib
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

import pulumi
from pulumi_command import remote

from components.hosts.calls import HostCalls, Report, parse_report, start_command
from components.hosts.delivery import Delivery, endpoints_digest
from components.hosts.document import deadline_s, document_text, owner_of, target_record, vf_layout
from components.hosts.fleet import Fleet
from components.hosts.pack import digest
from components.hosts.records import HostRecord
from components.outputs import outline
from components.provider.program import Declaration
from components.ssh.connection import NoAnswerError
from components.ssh.credentials import endpoints_of
from components.topology import outline_of
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.load import Credentials
from stacks.nodes import Node

SHORTEST_TIMEOUT_S = 900
SPARE_S = 300
"""For the lock, the connection and its retries. The host's own deadline comes first, because it
names what hung."""
DIAL_S = 10
BUSY_DIAL_S = 60
"""The same on emulated machines with a kubelet, where pods start meanwhile."""


@frozen
class HostsArgs:
    """Inputs of `Hosts`."""

    lab: Lab
    credentials: Credentials


class Hosts(pulumi.ComponentResource):
    """Configures every active host, confirms it over a new connection, and checks it.

    The commands have no `delete` and no `triggers`: with them a renamed host would be undone after
    it was set up. The Fleet undoes hosts, by machine ID.
    """

    results: pulumi.Output[Mapping[str, Mapping[str, str]]]
    """Per host: `status` (ready, failed, needs_reboot, unreachable, drained, undone), with
    reason and hint; a `warning` where a peer on a rail did not answer."""
    outline: pulumi.Output[Mapping[str, Mapping[str, str]]]
    """The results for the stack output: of many hosts only those that are not ready, and a
    count."""
    facts: pulumi.Output[Mapping[str, Mapping[str, object]]]
    """Per host: machine id, kernel, RDMA devices (soft-RoCE named as simulated)."""
    topology: pulumi.Output[Mapping[str, object]]
    """Blocks of nodes by their leaves, for schedulers."""
    vf_layout: pulumi.Output[str]
    """Mark of all VFs (see `mark_after`): when it changes, device plugins restart. Known once the
    VFs exist."""

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:hosts:Hosts", name, None, opts)
        lab = args.lab
        nodes = {f"{name}-{node.name}": node for node in lab.nodes}
        self._explain = pulumi.ErrorHook(
            f"{name}-remedy", lambda failed: _explain(nodes[failed.name], failed)
        )
        endpoints = endpoints_of(lab, args.credentials.host_keys)
        program: dict[str, pulumi.Input[str]] = {
            "program": digest(),
            "hosts": endpoints_digest(endpoints),
        }
        marks: dict[str, pulumi.Input[Any]] = {"vf_layout": vf_layout(lab)}
        if args.credentials.files:
            # a changed secret changes no document, but must still be installed
            program["files"] = marks["files"] = files_digest(args.credentials.files)
        below = pulumi.ResourceOptions(parent=self)
        self._program = Declaration(Delivery, f"{name}-program", program, below)
        owner = owner_of(lab, pulumi.get_stack())
        keys = args.credentials.host_keys
        records = {
            node.name: target_record(lab, node, keys[node.name], owner) for node in lab.nodes
        }
        by_command = {f"{name}-{node}": record for node, record in records.items()}
        confirmer = Confirmer(by_command, args.credentials.private_key)
        # a host that cannot be confirmed is not a failure of its command: the Fleet reports it
        forgiving = pulumi.ResourceHookOptions(ignore_errors=True)
        self._confirm = pulumi.ResourceHook(f"{name}-confirm", confirmer.confirm, forgiving)
        commands = [
            self._configure(name, args, node, records[node.name]) for node in lab.active_nodes
        ]
        # a command's id is known when its hook has ended
        ended = pulumi.Output.all(*(command.id for command in commands))
        reports = ended.apply(lambda _: confirmer.reports())
        fleet = Declaration(
            Fleet,
            f"{name}-fleet",
            {"hosts": records, "policy": lab.hosts, "reports": reports, **marks},
            # no output shows what the commands did to the hosts
            pulumi.ResourceOptions(parent=self, depends_on=commands),
        )
        # nothing of a Fleet that --target left out
        self.results = fleet.results.apply(lambda results: results or {})
        self.outline = self.results.apply(outline)
        self.facts = fleet.facts.apply(lambda facts: facts or {})
        self.topology = self.facts.apply(lambda facts: outline_of(lab, facts))
        self.vf_layout = fleet.vf_layout
        outputs = {"results": self.results, "facts": self.facts, "vf_layout": self.vf_layout}
        self.register_outputs(outputs)

    def _configure(
        self, name: str, args: HostsArgs, node: Node, record: HostRecord
    ) -> remote.Command:
        dial_s = DIAL_S if args.lab.simulator is None else BUSY_DIAL_S
        connection = {
            "host": str(node.address),
            "port": node.ssh_port,
            "user": args.lab.access.user,
            "host_key": args.credentials.host_keys[node.name],
            "dial_error_limit": 2,
            "per_dial_timeout": dial_s,
        }
        aliases = [pulumi.Alias(name=f"{name}-{node.formerly}")] if node.formerly else []
        longest = f"{max(SHORTEST_TIMEOUT_S, deadline_s(record.document) + SPARE_S)}s"
        return remote.Command(
            f"{name}-{node.name}",
            connection=_with_key(connection, args.credentials.private_key),
            create=start_command(),
            stdin=document_text(record.document),
            # stderr reports what a slow run does. The report is in stdout, and at its length the
            # provider's log reader would stop and block the host: it takes lines of 64 KiB at most.
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(
                parent=self,
                aliases=aliases,
                depends_on=[self._program],  # it has no output that the command would use
                hooks=pulumi.ResourceHookBinding(
                    on_error=[self._explain],
                    after_create=[self._confirm],
                    after_update=[self._confirm],
                ),
                custom_timeouts=pulumi.CustomTimeouts(create=longest, update=longest, delete="2m"),
            ),
        )


def _with_key(connection: Mapping[str, Any], private_key: pulumi.Output[str] | None) -> Any:
    """The connection as a single Output: Pulumi's own type makes one for each of its fields.

    It is read-only because Pulumi searches plain dictionaries for Outputs, too.
    """
    if private_key is None:
        return MappingProxyType(connection)
    return private_key.apply(lambda key: MappingProxyType({**connection, "private_key": key}))


def _explain(node: Node, failed: pulumi.ErrorHookArgs) -> bool:
    """Adds the remedy to the provider's error. True would retry, as the provider has already."""
    error = failed.errors[0] if failed.errors else ""
    pulumi.log.error(remedy(node, error))
    return False


def files_digest(files: Mapping[str, pulumi.Output[str]]) -> pulumi.Output[str]:
    """Changes with any of the secrets, and is a secret itself."""

    def of(texts: Mapping[str, str]) -> str:
        return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()

    return pulumi.Output.all(**files).apply(of)


class Confirmer:
    """Confirms each host over a new connection when its own command has ended; keeps its report.

    A host reverts its network changes unless they are confirmed in time. If the Fleet confirmed all
    hosts at the end, one slow or failing command would cost all others their changes.

    The calls run in a thread of their own. In the program's event loop they would hang: a
    registration occupies one of the loop's threads until the hooks of its resource have ended, and
    with as many resources as threads none is left for connecting.
    """

    def __init__(
        self, records: Mapping[str, HostRecord], private_key: pulumi.Output[str] | None
    ) -> None:
        """Opens no connection yet.

        Args:
            records: of the hosts, by the name of the command of each.
            private_key: None: the ssh-agent has the keys.
        """
        self._records, self._private_key = records, private_key
        self._reports: dict[str, Report] = {}
        self._worker: tuple[HostCalls, asyncio.AbstractEventLoop] | None = None

    async def confirm(self, ended: pulumi.ResourceHookArgs) -> None:
        """Confirms one host, and adds what its command printed. If that fails, the Fleet tries
        again.
        """
        printed = (ended.new_outputs or {}).get("stdout", "")
        if isinstance(printed, pulumi.Output):  # a secret, as the connection is
            printed = await printed.future()
        key = await self._private_key.future() if self._private_key else None
        if self._worker is None:
            self._worker = (HostCalls(key), asyncio.new_event_loop())
            threading.Thread(
                target=self._worker[1].run_forever, name="confirm", daemon=True
            ).start()
        hosts, loop = self._worker
        record = self._records[ended.name]
        with suppress(NoAnswerError):
            applied = parse_report(str(printed))
            if applied.failed and applied.failed["step"] == "program":  # it could not run
                self._reports[str(record.document["host"])] = applied
                return
            # the program is there: the command has just run it
            call = hosts.call(record.endpoint, "confirm", record.document, copied=True)
            future = asyncio.run_coroutine_threadsafe(call, loop)
            confirmed = await asyncio.wrap_future(future)
            failed = confirmed.failed or applied.failed
            self._reports[str(record.document["host"])] = replace(confirmed, failed=failed)

    def reports(self) -> dict[str, dict[str, Any]]:
        """What the hosts reported, by host."""
        return {host: asdict(report) for host, report in self._reports.items()}


CAUSES = (
    (
        ("host key mismatch", "host key"),
        "answers with another host key than access.known_hosts_file; nothing was sent",
    ),
    (
        ("unable to authenticate", "no supported methods"),
        "refuses the login: wrong user, or a key that is not authorized there (rotated?)",
    ),
    (("connection refused",), "refuses the connection: check that sshd is running"),
    (("no route to host", "network is unreachable"), "cannot be reached: no route"),
    (("i/o timeout", "deadline exceeded"), "does not answer"),
    (
        ("a password is required", "sudo:"),
        "does not let the user run commands as root: rocelab needs sudo without a password",
    ),
    (("python3: not found", "python3: command not found", "No such file"), "has no python3"),
)
"""Texts in the provider's error, and what they mean; the first match counts."""


def remedy(node: Node, error: str) -> str:
    """One line with host, address, cause and two remedies."""
    cause = f"failed: {' '.join(error.split())[:200]}"
    for words, text in CAUSES:
        if any(word.lower() in error.lower() for word in words):
            cause = text
            break
    place = f"{node.name} ({node.address}:{node.ssh_port})"
    return (
        f"nodes.{node.name}: {place} {cause}. Fix this and run again, "
        f"or set nodes.{node.name}.state: drained to leave it out"
    )
