"""Prepares the hosts of a plan: connects, takes the leases, reads the ports, and refuses a fabric
in use.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from components.hosts.pack import NO_COPY, copied, on_stdin, started
from components.hosts.program.look.leaves import LATE
from components.kubernetes.client import KubernetesApi
from components.ssh.connection import Connection, NoAnswerError, connected
from components.ssh.credentials import LabAccess, Login
from components.ssh.session import CommandResult, Pool, feed, session
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.commands import HELD, facts_words, lease
from components.validation.benchmarks.verbs.ports import HostPorts, parse_ports
from components.validation.benchmarks.verbs.run import Bench, BusyError, as_raw
from components.validation.cluster import holders
from stacks.base import LabError
from stacks.words import some

AT_ONCE = 64
KEEPALIVE_S = 5
"""A host that dies under a test should not hold the others up."""
FACTS_S = 90
"""A busy host is slow, not silent: an emulated one needed more than 30 s."""
LEASE_S = 60
FACTS = "hosts/"
LEASE_MARGIN_S = 900
"""A lease lasts this much longer than the estimate, but never survives a lost connection."""


@asynccontextmanager
async def taken(
    plan: Plan, access: LabAccess, run_id: str, notes: list[str]
) -> AsyncIterator[Bench]:
    """The hosts of the plan; connections and leases end with the block.

    Raises:
        BusyError: when another run or program uses the fabric.
    """
    async with AsyncExitStack() as stack:
        connections, unreachable = await _connected(stack, plan, access.login)
        reachable = sorted(connections)
        limit_s = int(plan.estimate_s) + LEASE_MARGIN_S
        # the first host decides between two runs that start at once; behind it the order does not
        # matter
        for group in (reachable[:1], reachable[1:]):
            held = (_lease(stack, connections[node], node, run_id, limit_s) for node in group)
            faults = await asyncio.gather(*held)
            unreachable |= {node: fault for node, fault in zip(group, faults, strict=True) if fault}
        leased = [node for node in reachable if node not in unreachable]
        looks = asyncio.gather(*(_facts(plan, connections[node], node) for node in leased))
        pods = asyncio.to_thread(_pods, plan, access.kubeconfig)
        looked, (unasked, foreign) = await asyncio.gather(looks, pods)
        ports = {node: known for node, known, _ in looked if isinstance(known, HostPorts)}
        unreachable |= {node: known for node, known, _ in looked if isinstance(known, str)}
        raw = {f"{FACTS}{node}": text for node, _, text in looked if text}
        _refuse_busy(ports, foreign, cluster_known=not unasked)
        notes += [unasked] if unasked else []
        notes += sorted({known.version for known in ports.values()})
        yield Bench(
            plan=plan, connections=connections, ports=ports, unreachable=unreachable, raw=raw
        )


async def _connected(
    stack: AsyncExitStack, plan: Plan, login: Login
) -> tuple[dict[str, Pool], dict[str, str]]:
    """The connections, and why hosts cannot be reached, each by node."""
    connections: dict[str, Pool] = {}
    unreachable: dict[str, str] = {}
    gate, keys = asyncio.Semaphore(AT_ONCE), login.keys

    async def connect(node: str) -> Connection:
        async with gate:
            return await stack.enter_async_context(
                connected(login.endpoints[node], keys, name=node, keepalive_s=KEEPALIVE_S)
            )

    async def first(node: str) -> None:
        try:
            connections[node] = Pool(await connect(node), lambda: connect(node))
        except LabError as error:
            unreachable[node] = str(error)

    await asyncio.gather(*(first(node) for node in sorted(plan.nodes)))
    return connections, unreachable


async def _lease(
    stack: AsyncExitStack, connection: Pool, node: str, run_id: str, limit_s: int
) -> str:
    """Holds a host's lease until the stack ends.

    Returns why it has none, unless another run holds it.
    """
    try:
        holder = await stack.enter_async_context(session(connection, lease(run_id, limit_s)))
        line = await holder.first_line(LEASE_S)
        if line == "held":
            return ""
        done = await holder.done(LEASE_S)
    except (LabError, TimeoutError) as error:
        return f"{node}: no lease: {str(error) or 'no answer'}"
    if done.code == HELD:
        raise BusyError(f"run {line or '?'} holds {node}")
    return (
        f"{node}: no lease: {line or done.err.strip()[:160] or f'exit {done.code}'} (does sudo "
        "require a password?)"
    )


async def _facts(plan: Plan, connection: Pool, node: str) -> tuple[str, HostPorts | str, str]:
    """The node, its ports or why they are unknown, and the raw output."""
    verb = facts_words(
        plan.verbs.tests, [end for rail in plan.rails for end in rail.ends if end.node == node]
    )
    output = ""
    try:
        done = await answer(connection, verb)
        output = as_raw(["host.pyz", verb], done)
        ports = parse_ports(done.out)
    except LabError as error:
        return node, f"{node}: {error}", output
    missing = []
    for test in plan.verbs.tests:
        if test not in ports.tests:
            missing.append(test)
    for name, reason in ports.unread.items():
        # slowness says nothing about the ports, but a port that cannot be read has a fault
        if name == "programs" or (name.endswith(" gids") and f": {LATE}" in reason):
            return node, f"{node}: {reason}", output
    if missing:
        return (
            node,
            f"{node}: {missing[0]} is not installed (package perftest, in system.packages)",
            output,
        )
    return node, ports, output


async def answer(connection: Pool, verb: str) -> CommandResult:
    """What the host program prints: of its copy on the host, or else of the program as it is sent.

    Raises:
        LabError: when the host does not answer in time, or does not run the program.
    """
    try:
        async with asyncio.timeout(FACTS_S):
            done = await feed(connection, copied(verb), b"")
            if done.code == NO_COPY:
                done = await feed(connection, started(verb), on_stdin())
    except TimeoutError:
        raise NoAnswerError(f"no answer within {FACTS_S} s") from None
    if done.code:
        raise LabError((done.err or done.out).strip()[-300:] or f"exit {done.code}")
    return done


def _pods(plan: Plan, kubeconfig: str | None) -> tuple[str, list[str]]:
    """Why the cluster could not be asked, or empty; and pods that hold a rail. Blocks."""
    if kubeconfig is None:
        return "no cluster to ask for pods on the rails", []
    try:
        with KubernetesApi(kubeconfig) as api:
            return "", holders(api, {rail.resource for rail in plan.rails}, plan.nodes)
    except LabError as error:
        return f"the cluster does not report which pods are on the rails: {str(error)[:160]}", []


def _refuse_busy(ports: dict[str, HostPorts], foreign: list[str], *, cluster_known: bool) -> None:
    # a cluster that was asked knows more about a pod: its name, and whether it is a leftover of a
    # run
    if cluster_known:
        away = []
    else:
        away = [f"{node}: {vf}" for node, known in ports.items() for vf in known.away]
    uses = (
        (
            "queue pairs are open on ",
            [f"{node}: {user}" for node, known in ports.items() for user in known.users],
        ),
        ("", foreign),
        ("a VF is in another network namespace or under vfio: ", away),
        ("", [f"{node}: {traffic}" for node, known in ports.items() for traffic in known.busy()]),
    )
    for what, users in uses:
        if users:
            raise BusyError(f"{what}{some(users, 1)}")
