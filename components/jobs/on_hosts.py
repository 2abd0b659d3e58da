"""A job on the nodes themselves.

The shell commands that start it, for a reviewer and for the runner. Pure.
"""

import json
import shlex

from components.jobs.mpijob import MpiProgram, launcher_args
from components.jobs.workers import Workers

AGENT = """#!/usr/bin/env python3
import json, os, socket, sys
relay = socket.socket(socket.AF_UNIX)
relay.connect(os.path.join(os.path.dirname(__file__), "relay"))
relay.sendall(json.dumps([sys.argv[1], " ".join(sys.argv[2:])]).encode() + b"\\n")
sys.exit(int(relay.makefile().readline() or 255))
"""
"""What mpirun runs instead of ssh: it hands host and command to this program, which has a
connection to each node. So no node needs a login on another one, and no key is on any of them."""
AGENT_VARIABLES = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
"""Of Open MPI 4 and 5."""


def request_of(line: bytes) -> tuple[str, str]:
    """Host and command that the agent hands over."""
    host, command = json.loads(line)
    return str(host), str(command)


def mpirun(workers: Workers, program: MpiProgram, agent: str = "") -> str:
    """The shell command of the first node.

    Output of all ranks in one stream, as a pod's log has it.
    """
    variables = []
    if agent:
        variables = [f"{name}={agent}" for name in AGENT_VARIABLES]
    words = ["env", *variables] if variables else []
    return f"{shlex.join([*words, 'mpirun', *launcher_args(workers, program)])} 2>&1"


def batch(workers: Workers, program: MpiProgram, name: str) -> str:
    """The same in Slurm: mpirun takes the nodes of the allocation, and Slurm starts its daemons.

    The first node submits it, and is where the batch script runs, so its output is there too.
    """
    options = [
        "--wait",
        "--quiet",
        f"--job-name={name}",
        f"--nodes={len(workers.nodes)}",
        f"--nodelist={','.join(workers.nodes)}",
        f"--ntasks-per-node={workers.ranks_per_node}",
        "--exclusive",
        f"--time={workers.timeout_s // 60 + 1}",
    ]
    if workers.cpu_ranks_per_node is None:
        options.append(f"--gpus-per-node={workers.gpus_per_node}")
    wrapped = shlex.join([*options, f"--wrap={mpirun(workers, program)}"])
    cancel = f"trap {shlex.quote(f'scancel --name={name}; exit 143')} HUP INT TERM"
    submit = f'sbatch --output="$log" {wrapped} & wait $!; code=$?'
    return f'{cancel}; log=$(mktemp) || exit; {submit}; cat "$log"; rm -f "$log"; exit $code'


def command_of(workers: Workers, program: MpiProgram, name: str, agent: str = "") -> str:
    """What the first node runs."""
    if workers.runner == "slurm":
        return batch(workers, program, name)
    return mpirun(workers, program, agent)
