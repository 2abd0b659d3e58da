"""NCCL and MPI without pods: what starts on the nodes, and how mpirun's daemons get there."""

import asyncio
import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import asyncssh
import pytest

from components.jobs.mpijob import MpiProgram
from components.jobs.on_hosts import command_of
from components.jobs.workers import Workers
from components.ssh.session import Pool
from components.validation.benchmarks.nccl.plan import node_ring
from components.validation.benchmarks.nccl.rings import run_rings
from components.validation.benchmarks.nccl.run import run_nccl
from components.validation.benchmarks.on_hosts import launched
from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.benchmarks.verbs.run import Bench
from components.validation.mpijobs import ClusterRun, JobError
from simulator.nodes.debian import fetched, library_path
from stacks.benchmarks import Benchmarks, Mpi, Nccl
from stacks.lab import Lab
from stacks.transports import Comparison
from tests.components.validation.samples import RANKS, composed
from tests.components.validation.samples import nccl as recorded
from tests.conftest import ROOT

LINES = composed("nccl_log_2_28.txt")
TWO = ("gpu01", "gpu02")


def without_pods(lab: Lab, **sections: object) -> Plan:
    content = Benchmarks.model_validate({"mode": "enforce", "budget_s": 9000, **sections})
    plan = plan_of(lab.model_copy(update={"benchmarks": content, "cluster": None}))
    assert plan
    return plan


async def pass_on(given: "asyncssh.SSHReader[str]", child: asyncio.StreamWriter) -> None:
    """Passes a client's input on, and its end."""
    with contextlib.suppress(asyncssh.Error, OSError):
        while text := await given.read(1 << 16):
            child.write(text.encode())
    child.close()


class Nodes:
    """Real SSH servers on loopback whose commands run in a shell here, each node with its own folder of programs."""

    def __init__(
        self,
        folder: Path,
        programs: dict[str, str],
        inside: Mapping[str, list[str]] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`inside` has the words that run a command in a node's namespaces."""
        self.folder = folder
        self.inside = inside or {}
        self.env = env or {}
        for name, text in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        self.ran: list[tuple[str, str]] = []

    async def bench(self, stack: AsyncExitStack, plan: Plan) -> Bench:
        key = asyncssh.generate_private_key("ssh-ed25519")
        pools = {}
        at_work: set[asyncio.Task[None]] = set()

        async def all_ended() -> None:
            await asyncio.gather(*at_work)

        stack.push_async_callback(all_ended)
        for node in TWO:

            class Server(asyncssh.SSHServer):
                def begin_auth(self, username: str) -> bool:
                    return False

                def unix_server_requested(self, listen_path: str) -> bool:
                    return True

            async def handle(process: asyncssh.SSHServerProcess[str], node: str = node) -> None:
                self.ran.append((node, process.command or ""))
                at_work.add(cast("asyncio.Task[None]", asyncio.current_task()))
                path = f"{self.folder}:{os.environ['PATH']}"
                env = {**os.environ, "PATH": path, "NODE": node, **self.env}
                words = [*self.inside.get(node, []), "sh", "-c", process.command or ""]
                child = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=env,
                )
                assert child.stdin
                assert child.stdout
                assert child.stderr
                given = asyncio.create_task(pass_on(process.stdin, child.stdin))
                err = asyncio.create_task(child.stderr.read())
                while text := await child.stdout.read(1 << 16):
                    process.stdout.write(text.decode())
                errors, code = (await err).decode(), await child.wait()
                given.cancel()
                with contextlib.suppress(BrokenPipeError):  # the client is gone
                    process.stderr.write(errors)
                    process.exit(code)

            server = await asyncssh.listen(
                "127.0.0.1", 0, server_factory=Server, server_host_keys=[key], process_factory=handle
            )
            stack.callback(server.close)
            port = server.get_port()
            connection = await stack.enter_async_context(asyncssh.connect("127.0.0.1", port, known_hosts=None))
            pools[node] = Pool(connection, cast(Any, None))
        return Bench(plan=plan, connections=pools, ports={}, unreachable={})


def mpi_plan(lab: Lab, runner: str = "ssh") -> Plan:
    return without_pods(lab, mpi=Mpi(runner=runner, transports=("roce",), largest_bytes=65536))  # type: ignore[arg-type]


def test_a_job_on_nodes_needs_neither_cluster_nor_image_and_a_reviewer_reads_its_command(lab: Lab) -> None:
    plan = mpi_plan(lab)
    texts = dict(plan.documents())

    [job] = plan.jobs
    assert job.workers
    assert job.workers.nodes == TWO
    assert "mpi-all-reduce-roce.sh" in texts
    command = texts["mpi-all-reduce-roce.sh"]
    assert "OMPI_MCA_plm_rsh_agent=AGENT" in command
    assert "--host 10.10.11.11:1,10.10.11.12:1" in command
    assert "--mca oob_tcp_if_include enp5s0" in command
    with pytest.raises(ValueError, match="image is missing"):
        Mpi()


def test_in_slurm_the_job_names_its_nodes_and_slurm_starts_the_daemons(lab: Lab) -> None:
    [job] = mpi_plan(lab, "slurm").jobs
    assert job.workers
    command = command_of(job.workers, job.mpi_program(job.workers), "bench-x")

    subprocess.run(["sh", "-n", "-c", command], check=True)
    assert "|| exit; sbatch" in command, "in a list with & the shell would keep the name of the log to itself"
    assert "--nodelist=gpu01,gpu02" in command
    assert "--exclusive" in command
    assert "scancel --name=bench-x" in command
    assert "plm_rsh_agent" not in command
    assert "--gpus-per-node" not in command


def test_nccl_on_nodes_is_planned_by_gpus_and_runs_the_nodes_own_program(lab: Lab) -> None:
    plan = without_pods(lab, nccl=Nccl(runner="ssh", program="/opt/nccl-tests/all_reduce_perf"))

    text = dict(plan.documents())["nccl-all-reduce.sh"]
    assert "/opt/nccl-tests/all_reduce_perf -b 8" in text
    assert "NCCL_NET_GDR_LEVEL=PXB" in text, "GPUDirect is used where the lab has GPUs"
    assert "NCCL_ALGO=Ring" in text
    assert "--host 10.10.11.11:8,10.10.11.12:8" in text


@pytest.mark.row("A 349a")
def test_the_third_curve_of_a_comparison_runs_on_bare_metal(lab: Lab) -> None:
    comparison = Comparison(transports=("tcp", "host"), runner="ssh")
    nccl = Nccl(image="registry.example/nccl:1")
    content = Benchmarks(mode="enforce", budget_s=9000, nccl=nccl, comparison=comparison)
    plan = plan_of(lab.model_copy(update={"benchmarks": content}))
    assert plan

    runners = {job.transport: job.workers.runner for job in plan.jobs if job.workers}
    assert runners == {"tcp": "pods", "roce": "pods", "host": "ssh"}


def test_mpirun_reaches_the_other_nodes_over_our_own_connections_and_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    plan = mpi_plan(lab)
    [job] = plan.jobs
    # as mpirun does: the agent gets a host and the words of the daemon
    mpirun = '"${OMPI_MCA_plm_rsh_agent%:*}" 10.10.11.12 echo daemon "on" \\$NODE; echo "agent $?"'
    mpirun += '; echo "elsewhere ${OMPI_MCA_plm_rsh_agent#*:}"'
    nodes = Nodes(tmp_path, {"mpirun": mpirun})

    async def run() -> str:
        async with AsyncExitStack() as stack:
            bench = await nodes.bench(stack, plan)
            assert job.workers
            return await launched(bench, job.workers, job.mpi_program(job.workers), "bench-x")

    log = asyncio.run(run())

    assert "agent 0" in log
    assert "elsewhere /bin/false" in log, "the other nodes' daemons get the list too, and need a program that they have"
    assert ("gpu02", "echo daemon on $NODE") in nodes.ran
    [made] = map(Path, set(re.findall(r"(/tmp/rocelab-\w+)/agent", str(nodes.ran))))
    for _ in range(100):
        if not made.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{made} stays")


def test_a_host_that_mpirun_should_not_know_is_refused(lab: Lab, tmp_path: Path) -> None:
    plan = mpi_plan(lab)
    [job] = plan.jobs
    nodes = Nodes(tmp_path, {"mpirun": '"${OMPI_MCA_plm_rsh_agent%:*}" 192.0.2.1 id; echo "agent $?"'})

    async def run() -> str:
        async with AsyncExitStack() as stack:
            bench = await nodes.bench(stack, plan)
            assert job.workers
            return await launched(bench, job.workers, job.mpi_program(job.workers), "bench-x")

    assert "agent 255" in asyncio.run(run())
    assert not [command for _, command in nodes.ran if command == "id"]


def test_a_log_from_nodes_is_read_as_that_of_pods_and_a_missing_mpirun_is_named(lab: Lab, tmp_path: Path) -> None:
    plan = without_pods(lab, nccl=Nccl(runner="ssh"))
    log = tmp_path / "log"
    log.write_text(RANKS + LINES + recorded("deepops"))

    async def run(programs: dict[str, str]) -> Any:
        async with AsyncExitStack() as stack:
            (tmp_path / "bin").mkdir(exist_ok=True)
            for old in (tmp_path / "bin").iterdir():
                old.unlink()
            bench = await Nodes(tmp_path / "bin", programs).bench(stack, plan)
            assert plan.nccl
            loop = asyncio.get_running_loop()

            def on_nodes(workers: Workers, program: MpiProgram, name: str) -> str:
                return asyncio.run_coroutine_threadsafe(launched(bench, workers, program, name), loop).result()

            cluster = ClusterRun(kubeconfig=None, lab="lab", run_id="r1", simulated=False, say=print, on_nodes=on_nodes)
            result = await asyncio.to_thread(run_nccl, plan.nccl, cluster)
            rings = await asyncio.to_thread(run_rings, plan.nccl, cluster)
            return result, rings, cluster.raw

    result, rings, raw = asyncio.run(run({"mpirun": f"cat {log}"}))
    assert result.busbw_gbyte_s
    assert {ring.node for ring in rings} == {*TWO}
    assert raw["nccl_one_node.log"].startswith("[gpu01] ")

    # as a shell ends without the program
    missing, _, _ = asyncio.run(run({"mpirun": "exit 127"}))
    assert missing.outcome == "failed"
    assert "mpirun is missing" in missing.reasons[0]


def run_with(lab: Lab, folder: Path, mpirun: str) -> Any:
    """The all-reduce where mpirun is this shell script."""
    plan = without_pods(lab, nccl=Nccl(runner="ssh", largest_bytes=2**28))

    async def run() -> Any:
        async with AsyncExitStack() as stack:
            bench = await Nodes(folder, {"mpirun": mpirun}).bench(stack, plan)
            loop = asyncio.get_running_loop()

            def on_nodes(workers: Workers, program: MpiProgram, name: str) -> str:
                return asyncio.run_coroutine_threadsafe(launched(bench, workers, program, name), loop).result()

            cluster = ClusterRun(kubeconfig=None, lab="lab", run_id="r1", simulated=False, say=print, on_nodes=on_nodes)
            assert plan.nccl
            return await asyncio.to_thread(run_nccl, plan.nccl, cluster)

    return asyncio.run(run())


FAILED_RUNS = {
    "nccl/two_nodes_no_rdma_2xH100": "mpirun ended with 3: Failed to initialize any NET plugin",
    "mpi/no_slots": "mpirun ended with 3: There are not enough slots available in the system to satisfy the 2",
    "mpi/no_agent": 'mpirun ended with 3: The value of the MCA parameter "plm_rsh_agent" was set to a path',
}


@pytest.mark.parametrize(("log", "reason"), FAILED_RUNS.items(), ids=FAILED_RUNS)
def test_a_recorded_failure_is_reported_by_the_line_that_names_its_cause(
    lab: Lab, tmp_path: Path, log: str, reason: str
) -> None:
    """Neither the end of a help text nor the exit code of a rank says what is wrong."""
    result = run_with(lab, tmp_path, f"cat {ROOT}/tests/samples/{log}.txt; exit 3")

    assert result.outcome == "failed"
    assert result.reasons == (f"gpu01: {reason}",)


def test_two_real_gpus_that_fell_back_to_sockets_fail_with_their_numbers(lab: Lab, tmp_path: Path) -> None:
    result = run_with(lab, tmp_path, f"cat {ROOT}/tests/samples/nccl/two_nodes_sockets_2xH100.txt")

    assert result.outcome == "failed"
    assert result.reasons == ("NCCL reported sockets instead of RDMA (NET/IB)",)
    assert (result.transport, result.busbw_gbyte_s) == ("socket", 2.85)


@pytest.mark.parametrize("runner", ["ssh", "slurm"])
def test_the_ring_within_each_node_starts_on_that_node_alone(lab: Lab, tmp_path: Path, runner: str) -> None:
    """In Slurm by a job of its own: in a job over all nodes, mpirun would fill the first one each time."""
    plan = without_pods(lab, nccl=Nccl(runner=runner))  # type: ignore[arg-type]
    nodes = Nodes(tmp_path, {"mpirun": "echo mpirun", "sbatch": "true"})

    async def run() -> None:
        async with AsyncExitStack() as stack:
            bench = await nodes.bench(stack, plan)
            assert plan.nccl
            alone, program = node_ring(plan.nccl)
            await launched(bench, alone, program, "bench-x-ring")

    asyncio.run(run())

    commands = dict(nodes.ran)
    for node in TWO:
        if runner == "slurm":
            assert f"--job-name=bench-x-ring-{node} --nodes=1 --nodelist={node} " in commands[node]
        else:
            assert "plm_rsh_agent=/bin/false" in commands[node], "a node without ssh runs its own ring"


def test_an_unreachable_node_fails_the_job_by_name(lab: Lab) -> None:
    plan = mpi_plan(lab)
    [job] = plan.jobs
    assert job.workers
    bench = Bench(plan=plan, connections={}, ports={}, unreachable={"gpu02": "no answer"})

    with pytest.raises(Exception, match="gpu02: no answer"):
        asyncio.run(launched(bench, job.workers, job.mpi_program(job.workers), "x"))


@pytest.fixture
def namespaces() -> Iterator[dict[str, list[str]]]:
    """Two nodes that have nothing in common but rail-a: a veth pair named and addressed as in the lab."""
    with ExitStack() as stack:
        inside = {}
        pids = []
        for node in TWO:
            start = f"hostname {node} && mount -t sysfs sysfs /sys && echo ready && read -r _"
            words = ["unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", start]
            holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(holder.communicate)
            assert holder.stdout
            if holder.stdout.readline() != "ready\n":
                pytest.skip("namespaces need root")
            inside[node] = ["nsenter", f"--target={holder.pid}", "--net", "--uts", "--ipc", "--mount"]
            pids.append(holder.pid)
        near = [*inside[TWO[0]], "ip", "link", "add", "enp5s0", "type", "veth"]
        subprocess.run([*near, "peer", "name", "enp5s0", "netns", f"{pids[1]}"], check=True)
        for number, node in enumerate(TWO, start=11):
            address = ["ip", "address", "add", f"10.10.11.{number}/24", "dev", "enp5s0"]
            subprocess.run([*inside[node], *address], check=True)
            for link in ("lo", "enp5s0"):
                subprocess.run([*inside[node], "ip", "link", "set", link, "up"], check=True)
        for node in TWO:  # the kernel reports a link at most once a second, and UCX takes none that is down
            ready = "until grep -q up /sys/class/net/enp5s0/operstate; do sleep 0.1; done"
            subprocess.run([*inside[node], "sh", "-c", ready], check=True, timeout=20)
        yield inside


def run_open_mpi(
    namespaces: dict[str, list[str]], lab: Lab, folder: Path, script: str | None = None
) -> tuple[str, Nodes]:
    """The log of MPI's all-reduce, or of another script, by Debian's own mpirun, orted, UCX and mpi4py."""
    root = fetched(("openmpi-bin", "python3-mpi4py"), print)
    plan = without_pods(lab, mpi=Mpi(runner="ssh", transports=("tcp",), largest_bytes=65536, timeout_s=120))
    [job] = plan.jobs
    workers = job.workers
    assert workers
    program = job.mpi_program(workers)
    if script:
        before = program.words.index("-c")
        program = replace(program, words=(*program.words[: before + 1], script))
    env = {
        "LD_LIBRARY_PATH": library_path(root),
        "OPAL_PREFIX": f"{root}/usr",
        "OPAL_LIBDIR": f"{root}/usr/lib/x86_64-linux-gnu/openmpi/lib",
        "OPAL_PKGDATADIR": f"{root}/usr/share/openmpi",
        "PYTHONPATH": f"{root}/usr/lib/python3/dist-packages",
    }
    programs = {
        "mpirun": f'exec {root}/usr/bin/mpirun.openmpi "$@"',
        "orted": f'exec {root}/usr/bin/orted "$@"',
        "python3": 'exec /usr/bin/python3 "$@"',
    }
    nodes = Nodes(folder, programs, namespaces, env)

    async def run() -> str:
        async with AsyncExitStack() as stack:
            bench = await nodes.bench(stack, plan)
            return await launched(bench, workers, program, "bench-x")

    return asyncio.run(run()), nodes


@pytest.mark.sim
def test_open_mpi_reduces_over_two_nodes_that_have_only_a_rail_in_common(
    namespaces: dict[str, list[str]], lab: Lab, tmp_path: Path
) -> None:
    """No daemon has another way to start than the relay, and no rank another way to its peer than the rail."""
    log, nodes = run_open_mpi(namespaces, lab, tmp_path)

    assert "Rank  0 on gpu01" in log
    assert "Rank  1 on gpu02" in log
    assert "tcp/enp5s0" in log
    assert "# Out of bounds values : 0 OK" in log
    assert [node for node, command in nodes.ran if "orted" in command] == ["gpu02"]
    daemons = ["pgrep", "-x", "orted", "--nslist", "net", "--ns", namespaces["gpu02"][1].partition("=")[2]]
    deadline = time.monotonic() + 20
    while subprocess.run(daemons, check=False).returncode == 0:
        assert time.monotonic() < deadline, "the daemon on gpu02 still runs"
        time.sleep(0.2)


@pytest.mark.sim
def test_a_rank_that_fails_ends_the_job_instead_of_leaving_its_peers_to_wait(
    namespaces: dict[str, list[str]], lab: Lab, tmp_path: Path
) -> None:
    """As when UCX finds no transport on a node: the other rank waits in the collective for ever."""
    script = """from mpi4py import MPI
if MPI.COMM_WORLD.Get_rank():
    raise ValueError("no transport")
MPI.COMM_WORLD.Barrier()"""

    with pytest.raises(JobError, match="gpu01: mpirun ended with 1") as failure:
        run_open_mpi(namespaces, lab, tmp_path, script)

    assert "ValueError: no transport" in (failure.value.log or "")
