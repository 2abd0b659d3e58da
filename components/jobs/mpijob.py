"""An MPIJob of `kubeflow.org/v2beta1`: a launcher of ranks, and workers that are pods with sshd."""

from dataclasses import field
from pathlib import Path

from pydantic import JsonValue

from components.cluster.manifests import render
from components.jobs.image.pvrdma_inside import at_start
from components.jobs.workers import Workers
from stacks.frozen import frozen

HERE = Path(__file__).parent
USE_OWN_DEVICES = HERE.joinpath("rank_nccl.sh").read_text()
"""A rank's start. With shared RDMA namespaces every pod sees every RDMA device of its node, but has
addresses on its own VFs only: NCCL would choose one of the others and fail. So each rank names
those of its own interfaces, or the PFs' where pods share these.

The GID index differs from pod to pod. NCCL before 2.21, such as that of older training images,
takes index 0 (RoCE v1, a link-local address) by default, and takes one index for all devices: each
rank names the RoCE v2 entry with the IPv4 address of its own interface, if that has the same number
on all of them. Otherwise newer versions find it.
"""

USE_OWN_DEVICES_OF_UCX = HERE.joinpath("rank_ucx.sh").read_text()
"""The same for UCX, which finds the GID by itself and takes a port after each device."""
SYSFS = "/sys/class/net"


def rank_script(workers: Workers, sysfs: str = SYSFS, root: str = "", *, ucx: bool = False) -> str:
    """The start of a rank as shell text; in pods Multus names the rails' interfaces net1, net2 and
    so on.

    Over PVRDMA it first looks at its own image: jobs name any image, and not every one is a
    recipe's.
    """
    names = workers.host.pfs if workers.host else ("net*",)
    interfaces = " ".join(f"{sysfs}/{name}" for name in names)
    script, ending = USE_OWN_DEVICES, ""
    if ucx:
        script, ending = USE_OWN_DEVICES_OF_UCX, ":1"
    shared = ",".join(f"{device}{ending}" for device in workers.shared_devices)
    script = script.replace("@interfaces@", interfaces).replace("@shared@", shared)
    # one line: it is a word of mpirun's command line, which people read in a plan
    devices = " ".join(script.split())
    return (at_start(root) if workers.pvrdma else "") + devices


MOST_RANKS_WITH_NET = 256
"""With more ranks NCCL leaves out the lines that belong to NET alone: connections to proxies, queue
pairs, GPUDirect of each adapter. They are 60 % of 14 to 18 KB a rank (2.28), and the kubelet
rotates the launcher's log at 10 MiB. NET/IB, the network in use and its channels are INIT as well,
settings are ENV (2.4 to 2.30), and warnings are always shown."""


def nccl_variables(workers: Workers) -> dict[str, str]:
    """NCCL's settings for the transport."""
    bootstrap = {"NCCL_SOCKET_IFNAME": ",".join(workers.bootstrap_interfaces)}
    subsystems = "INIT,ENV"
    if workers.ranks <= MOST_RANKS_WITH_NET:
        subsystems = "INIT,NET,ENV"
    shown = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": subsystems}
    if workers.transport == "tcp":
        return {**shown, "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", **bootstrap}
    return {
        **shown,
        # IB fails loudly where NCCL would use sockets without a word
        "NCCL_NET": "IB",
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET_GDR_LEVEL": "PXB"
        if workers.gpu_direct
        else "LOC",  # the DeepOps RoCE guide's 2, the vSphere RDG's 0
        **({"NCCL_IB_TC": str(workers.traffic_class)} if workers.traffic_class is not None else {}),
        # NCCL's default, 2, may join NICs of two rails, and between rails without a router no
        # packet passes
        **({} if workers.routed else {"NCCL_CROSS_NIC": "0"}),
        **bootstrap,
    }


def ucx_variables(workers: Workers) -> dict[str, str]:
    """UCX's settings for the transport: that one alone between nodes, shared memory within each."""
    # at this level UCX logs the transports of each connection; variables that a version does not
    # know are no fault
    shown = {"UCX_LOG_LEVEL": "info", "UCX_LOG_FILE": "stderr", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    if workers.transport == "tcp":
        return {
            **shown,
            "UCX_TLS": "tcp,sm,self",
            "UCX_NET_DEVICES": ",".join(workers.bootstrap_interfaces),
        }
    return {
        **shown,
        "UCX_TLS": "rc,sm,self",
        "UCX_MAX_RNDV_RAILS": str(len(workers.attachments)),
        **(
            {"UCX_IB_TRAFFIC_CLASS": str(workers.traffic_class)}
            if workers.traffic_class is not None
            else {}
        ),
        # between rails without a router no packet passes; newer versions have the second variable
        # instead of the first
        **(
            {}
            if workers.routed
            else {"UCX_IB_ROCE_LOCAL_SUBNET": "y", "UCX_IB_ROCE_REACHABILITY_MODE": "local_subnet"}
        ),
    }


def rank_words(workers: Workers, variables: dict[str, str], *, ucx: bool = False) -> list[str]:
    """Words of mpirun between its own options and the program.

    Sessions of sshd do not inherit a pod's environment.
    """
    exported = {**(ucx_variables(workers) if ucx else nccl_variables(workers)), **variables}
    words = [word for name, value in exported.items() for word in ("-x", f"{name}={value}")]
    words += ["-x", "LD_LIBRARY_PATH", "-x", "PATH"]
    if workers.transport == "tcp":
        return words
    return [*words, "sh", "-c", rank_script(workers, ucx=ucx), "rank"]


GROUP, VERSION, PLURAL = "kubeflow.org", "v2beta1", "mpijobs"
RUN_LABEL, LAB_LABEL = "rocelab.dev/run", "rocelab.dev/lab"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
SSH_PORT = 22
LAUNCHER_MIB, LAUNCHER_MIB_A_WORKER = 128, 2


def job_name(run_id: str) -> str:
    """The name of a run's job, short enough for a DNS label with `-worker-NNNN`."""
    return f"bench-{run_id}".lower()


@frozen
class MpiProgram:
    """What every rank runs, and the variables that it needs besides those of NCCL or UCX."""

    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    launcher: str = "launcher"
    tagged: bool = False
    """Whether mpirun marks each line with its rank: needed when all ranks print results."""
    over_ucx: bool = False
    """Whether MPI itself carries the data, over UCX. Otherwise NCCL does, and MPI stays off the
    rails."""
    apart_s: int | None = None
    """Each node runs it alone, for at most so many seconds. None: one run over all nodes."""


APART = HERE.joinpath("apart.sh").read_text()
"""One mpirun for each line of the operator's hostfile, as many at once as the launcher has memory
for.

Each line of an mpirun gets its host as prefix, and of NCCL's many lines only those stay that report
GPUs exchanging data through the host's memory. The launcher always succeeds, and each node's `exit`
line has its result, so one broken node hides no other.
"""


def mpi_job(
    name: str, workers: Workers, program: MpiProgram, labels: dict[str, str]
) -> dict[str, JsonValue]:
    """The job; its pods get the same labels and annotations."""
    placement = workers.placement
    worker_annotations = dict(placement.annotations)
    if workers.networks:
        worker_annotations[NETWORKS] = ",".join(workers.networks)
    ssh_port = workers.host.ssh_port if workers.host else SSH_PORT
    return render(
        "jobs/manifests/mpijob",
        name=name,
        workers=workers,
        replicas=len(workers.nodes),
        labels={**placement.labels, **labels},
        annotations=placement.annotations,
        worker_annotations=worker_annotations,
        tolerations=placement.taints,
        launcher=program.launcher,
        launcher_memory=f"{LAUNCHER_MIB + LAUNCHER_MIB_A_WORKER * len(workers.nodes)}Mi",
        command=_launcher_command(workers, program),
        args=launcher_args(workers, program),
        ssh_port=ssh_port,
        ssh_port_text=str(ssh_port),
    )


def _launcher_command(workers: Workers, program: MpiProgram) -> list[str]:
    if program.apart_s is None:
        return ["mpirun"]
    return ["sh", "-c", APART, "sh", str(program.apart_s), str(workers.gpus_per_node)]


def launcher_args(workers: Workers, program: MpiProgram) -> list[str]:
    """Words of mpirun."""
    if program.apart_s is None:
        ranks = workers.ranks
    else:
        ranks = workers.gpus_per_node
    args = _mpirun(workers, program, ranks)
    if program.tagged:
        args.append("--tag-output")
    args += rank_words(workers, program.variables, ucx=program.over_ucx)
    return [*args, *program.words]


OVER_UCX = (
    ("pml", "ucx"),
    ("pml_ucx_tls", "any"),
    ("pml_ucx_devices", "any"),
    ("coll", "^hcoll,ucc"),
)
"""UCX or nothing: by default Open MPI uses UCX only for devices named mlx*. HCOLL and UCC of
vendors' builds would carry collectives past it."""
OVER_SOCKETS = (("pml", "ob1"), ("btl", "tcp,self"))


def _mpirun(workers: Workers, program: MpiProgram, ranks: int) -> list[str]:
    """Open MPI's daemons stay off the rails, which have no route to the launcher."""
    words = ["--allow-run-as-root", "-np", str(ranks), "--bind-to", "none"]
    bootstrap = ",".join(workers.bootstrap_interfaces)
    parameters = [
        *(OVER_UCX if program.over_ucx else OVER_SOCKETS),
        ("oob_tcp_if_include", bootstrap),
    ]
    if not program.over_ucx:
        parameters.append(("btl_tcp_if_include", bootstrap))
    for parameter, value in parameters:
        words += ["--mca", parameter, value]
    if workers.runner == "ssh" and program.apart_s is None:
        slots = []
        for node in workers.nodes:
            slots.append(f"{workers.addresses[node]}:{workers.ranks_per_node}")
        return [*words, "--mca", "plm_rsh_no_tree_spawn", "1", "--host", ",".join(slots)]
    if workers.host and workers.runner == "pods":
        # this replaces the operator's arguments in the environment, so its retries are repeated
        # here
        words += ["--mca", "plm_rsh_args", f"-p {workers.host.ssh_port} -o ConnectionAttempts=10"]
    return words
