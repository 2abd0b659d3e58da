"""The seeds' jobs in v2beta1: what they ask for comes from the rails, and what kept such jobs from working is set."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.jobs.mpijob import LAB_LABEL, RUN_LABEL, job_name
from components.validation.benchmarks.nccl.plan import all_reduce_job, node_ring_job
from stacks.base import LabError
from stacks.bill import Registry
from stacks.delivery import Delivery, Pvrdma, SharedRdma, SriovOperator
from stacks.gpus import ContainerToolkit, Gpu
from stacks.lab import Lab
from stacks.qos import Qos
from stacks.rails import Rail
from tests.components.jobs.jobs import DEVICE_RESOURCE, JOBS, TRAINING, arguments, container, exported, rendered, worker
from tests.components.validation.labs import plan_for, with_nodes
from tests.messages import stating

NETWORKS = "k8s.v1.cni.cncf.io/networks"
TRANSPORTS = ("roce", "tcp", "host")


def test_deepops_s_job_takes_annotation_and_limits_from_the_same_rails(lab: Lab) -> None:
    job = rendered(lab)

    assert worker(job)["metadata"]["annotations"] == {NETWORKS: "default/sriov111,default/sriov112"}
    assert container(job)["resources"]["limits"] == {
        "intel.com/sriov_111": "1",
        "intel.com/sriov_112": "1",
        "nvidia.com/gpu": "8",
    }
    spec = job["spec"]
    assert (job["apiVersion"], spec["slotsPerWorker"]) == ("kubeflow.org/v2beta1", 8)
    assert spec["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
    assert "-np 16 " in arguments(job)


NO_PF = None
PFS = st.lists(st.lists(st.sampled_from([1, 2, 3, 0, NO_PF]), min_size=8, max_size=8), min_size=2, max_size=5)
"""By node and rail the number of VFs."""


@pytest.mark.row("A 22", "A 250-270")
@given(
    prefixes=st.lists(st.sampled_from(["intel.com", "nvidia.com"]), min_size=1, max_size=8),
    pfs=PFS,
    namespaces=st.lists(st.sampled_from(["default", "rocelab-bench", "team"]), min_size=1, unique=True),
)
def test_annotation_and_limits_never_disagree_whatever_the_rails_are(
    lab: Lab, prefixes: list[str], pfs: list[list[int | None]], namespaces: list[str]
) -> None:
    """Each network has its resource, and each resource its network."""
    rails = tuple(rail_of(lab.rails[0], number, prefix) for number, prefix in enumerate(prefixes))
    nodes = tuple(
        node.model_copy(
            update={
                "pfs": tuple(
                    node.pfs[0].model_copy(update={"rail": rail.name, "interface": f"p{i}", "vfs": vfs})
                    for i, (rail, vfs) in enumerate(zip(rails, by_rail, strict=False))
                    if vfs is not NO_PF
                )
            }
        )
        for node, by_rail in zip(with_nodes(lab, len(pfs)).nodes, pfs, strict=True)
    )
    assert lab.cluster
    drawn_lab = lab.model_copy(
        update={
            "rails": rails,
            "nodes": nodes,
            "cluster": lab.cluster.model_copy(update={"namespaces": tuple(namespaces)}),
        }
    )
    usable = [rail for rail in rails if all((pf := node.pf_on(rail.name)) and pf.vfs for node in nodes)]
    if not usable:
        with pytest.raises(LabError, check=stating("rail", "VFs", "every node")):
            rendered(drawn_lab)
        return
    for name in JOBS:
        job = rendered(drawn_lab, name)
        networks = worker(job)["metadata"]["annotations"][NETWORKS].split(",")
        asked = [resource for resource in container(job)["resources"]["limits"] if resource != "nvidia.com/gpu"]
        by_network = {rail.network_name: rail.resource for rail in rails}
        assert [by_network[network.partition("/")[2]] for network in networks] == asked
        assert asked == [rail.resource for rail in usable]
        assert {network.partition("/")[0] for network in networks} <= set(namespaces)


def rail_of(rail: Rail, number: int, prefix: str) -> Rail:
    names = {"name": f"rail-{number}", "resource_name": f"vf_{number}", "network_name": f"net{number}"}
    return rail.model_copy(update={**names, "resource_prefix": prefix})


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", JOBS)
def test_every_job_keeps_to_what_makes_mpi_jobs_work(lab: Lab, name: str, transport: str) -> None:
    job = rendered(lab, name, transport)
    spec, launcher, pod = job["spec"], container(job, "Launcher"), container(job)

    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady", "else mpirun finds no sshd and fails"
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 0, "activeDeadlineSeconds": 900}
    assert "cleanPodPolicy" not in spec, "at the root it is dropped without a word"
    assert "nvidia.com/gpu" not in launcher["resources"]["limits"], "the launcher only starts the ranks"
    assert pod["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}, "never privileged"
    assert "hostPath" not in str(job)
    assert pod["startupProbe"]["tcpSocket"]["port"] == (2222 if transport == "host" else 22)
    assert worker(job)["spec"]["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    assert "NCCL_IB_GID_INDEX" not in exported(job), "it differs from pod to pod"
    assert "ttlSecondsAfterFinished" not in spec["runPolicy"], "it would delete the log before it is read"


def test_the_launcher_fits_beside_the_agents_on_a_node_of_two_cpus_and_2_gib(lab: Lab) -> None:
    """It has no work of its own; of such a node the control plane's and the nodes' agents leave less than one CPU."""
    needs = container(rendered(lab), "Launcher")["resources"]

    assert needs == {"requests": {"cpu": "100m", "memory": "132Mi"}, "limits": {"memory": "1Gi"}}


@pytest.mark.row("A 349b")
def test_without_rails_the_job_runs_over_tcp_as_the_guides_compare_it(lab: Lab) -> None:
    job = rendered(lab, "tf_cnn", "tcp")

    assert "annotations" not in worker(job)["metadata"]
    assert container(job)["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    variables = exported(job)
    assert (variables["NCCL_IB_DISABLE"], variables["NCCL_NET"]) == ("1", "Socket")
    assert variables["HOROVOD_MPI_THREADS_DISABLE"] == "0"
    assert exported(rendered(lab, "tf_cnn"))["HOROVOD_MPI_THREADS_DISABLE"] == "1"


@pytest.mark.parametrize("transport", ["roce", "host"])
def test_nccl_keeps_to_one_rail_unless_every_rail_has_a_router(lab: Lab, transport: str) -> None:
    """NCCL's default is 2 (NVIDIA/nccl, src/graph/search.cc). On isolated rails it joined NICs of two of them and ended
    with `ibv_modify_qp failed with 110 Connection timed out` until 0 was set: NVIDIA/nccl#2013, ROCm/rccl#1303.
    """
    gateways = {"roce": ("10.20.111.254", "10.20.112.254"), "host": ("10.10.111.254", "10.10.112.254")}[transport]
    each = [
        rail.model_copy(update={"pod": rail.pod.model_copy(update={"gateway": gateway})})
        if transport == "roce"
        else rail.model_copy(update={"host_gateway": gateway})
        for rail, gateway in zip(lab.rails, gateways, strict=True)
    ]
    half = lab.model_copy(update={"rails": (each[0], lab.rails[1])})
    routed = lab.model_copy(update={"rails": tuple(each)})

    for isolated in (lab, half):
        assert exported(rendered(isolated, transport=transport))["NCCL_CROSS_NIC"] == "0"
    assert "NCCL_CROSS_NIC" not in exported(rendered(routed, transport=transport))
    assert "NCCL_CROSS_NIC" not in exported(rendered(lab, transport="tcp"))


def test_tcp_needs_no_rail_at_all(lab: Lab) -> None:
    bare = lab.model_copy(
        update={
            "nodes": tuple(
                node.model_copy(update={"pfs": tuple(pf.model_copy(update={"vfs": 0}) for pf in node.pfs)})
                for node in lab.nodes
            )
        }
    )

    assert rendered(bare, transport="tcp")["metadata"]["name"] == "nccl-tcp"
    with pytest.raises(LabError, check=stating("rail", "VFs", "every node")):
        rendered(bare)


def test_in_the_host_s_network_sshd_leaves_port_22_to_the_node_and_devices_come_from_a_plugin(lab: Lab) -> None:
    job = rendered(lab, transport="host")

    assert worker(job)["spec"]["hostNetwork"] is True
    assert container(job)["command"] == ["/usr/sbin/sshd", "-De", "-p", "2222"]
    assert "--mca plm_rsh_args -p 2222 -o ConnectionAttempts=10 " in arguments(job)
    assert container(job)["resources"]["limits"] == {DEVICE_RESOURCE: "1", "nvidia.com/gpu": "8"}
    for parameter in ("oob_tcp_if_include", "btl_tcp_if_include"):
        assert f"--mca {parameter} enp0s3 " in arguments(job), "MPI stays on the management interface"


def test_the_host_s_network_without_a_device_plugin_is_refused_with_the_remedy(lab: Lab) -> None:
    from components.validation.benchmarks.jobs.plan import job_of  # noqa: PLC0415  # without the default of `rendered`

    with pytest.raises(LabError, match=r"--device-resource rdma/<name>"):
        job_of(lab, "nccl", "host")


def test_a_rail_without_vfs_is_left_out_of_the_job(lab: Lab) -> None:
    nodes = tuple(
        node.model_copy(update={"pfs": (node.pfs[0], node.pfs[1].model_copy(update={"vfs": 0}))}) for node in lab.nodes
    )
    nccl = plan_for(lab.model_copy(update={"nodes": nodes})).nccl

    assert nccl
    assert (nccl.networks, nccl.rails) == (("default/sriov111",), ("rail-a",))


def test_ranks_get_the_variables_that_sshd_would_lose_and_nccl_cannot_fall_back(lab: Lab) -> None:
    variables = exported(rendered(lab))

    wanted = {"NCCL_NET": "IB", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", "NCCL_ALGO": "Ring"}
    assert wanted.items() <= variables.items()
    assert "NCCL_IB_TC" not in variables, "the lab says nothing about quality of service"


@pytest.mark.parametrize(("nodes", "shown"), [(32, "INIT,NET,ENV"), (33, "INIT,ENV"), (128, "INIT,ENV")])
@pytest.mark.parametrize("transport", ["roce", "tcp"])
def test_many_ranks_print_less_so_that_the_kubelet_does_not_rotate_their_log(
    lab: Lab, nodes: int, shown: str, transport: str
) -> None:
    assert exported(rendered(with_nodes(lab, nodes), transport=transport))["NCCL_DEBUG_SUBSYS"] == shown


def test_the_traffic_class_is_the_one_of_nic_and_switch(lab: Lab) -> None:
    marked = lab.model_copy(update={"qos": Qos(dscp=30, priority=3)})

    assert exported(rendered(marked))["NCCL_IB_TC"] == str(30 << 2 | 2)
    assert "NCCL_IB_TC" not in exported(rendered(marked, transport="tcp"))


def test_the_commands_are_those_of_the_guides(lab: Lab) -> None:
    assert arguments(rendered(lab)).endswith("all_reduce_perf -b 8 -e 2147483648 -f 2 -g 1")
    assert "tensorflow2_synthetic_benchmark.py --model ResNet50 --batch-size 32" in arguments(rendered(lab, "horovod"))
    assert arguments(rendered(lab, "tf_cnn")).endswith(
        "--model=resnet50 --batch_size=32 --variable_update=horovod --use_fp16 --xla=True --num_batches=10000"
    )
    assert container(rendered(lab, "horovod"))["image"] == TRAINING


def test_a_training_job_without_its_image_is_refused_by_path(lab: Lab) -> None:
    from components.validation.benchmarks.jobs.plan import job_of  # noqa: PLC0415  # without the images of `rendered`

    with pytest.raises(LabError, check=stating("images.training.image", "horovod")):
        job_of(lab, "horovod", "roce")


def test_a_job_for_people_is_not_one_that_the_runner_takes_for_its_leftover(lab: Lab) -> None:
    assert RUN_LABEL not in rendered(lab)["metadata"]["labels"]


def test_the_job_s_pods_have_names_that_dns_takes_even_with_ten_thousand_workers() -> None:
    name = job_name("20261121-063523-8f8d")

    assert re.fullmatch(r"[a-z][-a-z0-9]*[a-z0-9]", name)
    assert len(f"{name}-worker-9999") <= 63


def test_the_workers_lie_on_the_lab_s_nodes_and_one_on_each(lab: Lab) -> None:
    job = rendered(with_nodes(lab, 3))
    affinity = worker(job)["spec"]["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3
    assert terms[0]["matchExpressions"][0]["values"] == ["gpu01", "gpu02", "gpu03"]
    apart = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"]["training.kubeflow.org/job-name"] == job["metadata"]["name"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cluster": None}, "cluster: missing"),
        ({"nodes": ()}, "nodes: 0 active with gpus"),
        ({"benchmarks": None}, r"benchmarks\.nccl\.image: missing"),
    ],
)
def test_a_lab_that_cannot_run_the_job_says_why(lab: Lab, change: dict[str, object], said: str) -> None:
    with pytest.raises(LabError, match=said):
        rendered(lab.model_copy(update=change))


def delivered(lab: Lab, delivery: Delivery) -> Lab:
    """The lab whose rails come into pods in another way; hosts then make no VFs."""
    assert lab.cluster
    nodes = tuple(
        node.model_copy(update={"pfs": tuple(pf.model_copy(update={"vfs": 0}) for pf in node.pfs)})
        for node in lab.nodes
    )
    return lab.model_copy(
        update={
            "nodes": nodes,
            "cluster": lab.cluster.model_copy(update={"delivery": delivery, "namespaces": ("team",)}),
        }
    )


def test_vfs_of_the_operator_are_asked_for_like_the_hosts(lab: Lab) -> None:
    job = rendered(delivered(lab, SriovOperator(profile="sriov_operator", vfs=4)))

    assert worker(job)["metadata"]["annotations"] == {NETWORKS: "team/sriov111,team/sriov112"}
    assert container(job)["resources"]["limits"]["intel.com/sriov_112"] == "1"


def test_pods_that_share_a_pf_name_its_device_because_no_interface_leads_to_it(lab: Lab) -> None:
    job = rendered(delivered(lab, SharedRdma(profile="shared_rdma")))

    assert worker(job)["metadata"]["annotations"] == {NETWORKS: "team/sriov111,team/sriov112"}
    assert 'found="rxe0,rxe1"' in arguments(job)


def test_pods_that_share_pfs_do_not_name_the_device_of_a_rail_without_pods(lab: Lab) -> None:
    """The shared plugin gives them no such device, and UCX warns about each one that it cannot use."""
    rails = (lab.rails[0], lab.rails[1].model_copy(update={"pod": None}))
    job = rendered(delivered(lab.model_copy(update={"rails": rails}), SharedRdma(profile="shared_rdma")))

    assert 'found="rxe0"' in arguments(job)


def test_pvrdma_runs_in_the_machine_s_network_with_the_plugin_s_resource_and_without_gpudirect(lab: Lab) -> None:
    """The RDG's job without its privileged containers and its hostPath."""
    one_rail = lab.model_copy(update={"rails": lab.rails[:1]})
    job = rendered(delivered(one_rail, Pvrdma(profile="pvrdma")), "tf_cnn")

    assert worker(job)["spec"]["hostNetwork"] is True
    assert "annotations" not in worker(job)["metadata"]
    assert container(job)["resources"]["limits"] == {"intel.com/sriov_111": "1", "nvidia.com/gpu": "8"}
    assert exported(job)["NCCL_NET_GDR_LEVEL"] == "LOC"
    assert plan_for(delivered(one_rail, Pvrdma(profile="pvrdma"))).nccl.rails == ("rail-a",)  # type: ignore[union-attr]


def test_sshd_of_workers_in_the_machine_s_network_is_where_the_lab_has_it_at_every_end(lab: Lab) -> None:
    one_rail = lab.model_copy(update={"rails": lab.rails[:1]})
    for delivery, port in ((Pvrdma(profile="pvrdma"), "2222"), (Pvrdma(profile="pvrdma", ssh_port=2022), "2022")):
        job = rendered(delivered(one_rail, delivery), "tf_cnn")

        assert container(job)["command"] == ["/usr/sbin/sshd", "-De", "-p", port]
        assert container(job)["startupProbe"]["tcpSocket"] == {"port": int(port)}
        assert f"plm_rsh_args -p {port} -o" in arguments(job)


def test_in_the_host_s_network_the_launcher_runs_where_mpirun_s_interfaces_are(lab: Lab) -> None:
    """`oob_tcp_if_include` names interfaces of the nodes; in a pod network mpirun would find none of them."""
    one_rail = lab.model_copy(update={"rails": lab.rails[:1]})
    job = rendered(delivered(one_rail, Pvrdma(profile="pvrdma")), "tf_cnn")

    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert f"oob_tcp_if_include {lab.nodes[0].management_interface}" in arguments(job)
    assert (launcher["hostNetwork"], launcher["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert launcher["affinity"]["nodeAffinity"] == worker(job)["spec"]["affinity"]["nodeAffinity"]
    assert "hostNetwork" not in rendered(lab)["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]


@pytest.mark.row("B 454-458")
def test_rdg_s_tcp_variant_turns_both_of_its_switches(lab: Lab) -> None:
    """The RDG, below its job: NCCL_IB_DISABLE 0 to 1, HOROVOD_MPI_THREADS_DISABLE 1 to 0."""
    one_rail = delivered(lab.model_copy(update={"rails": lab.rails[:1]}), Pvrdma(profile="pvrdma"))
    roce, tcp = exported(rendered(one_rail, "tf_cnn", "roce")), exported(rendered(one_rail, "tf_cnn", "tcp"))

    assert (roce["NCCL_IB_DISABLE"], roce["HOROVOD_MPI_THREADS_DISABLE"]) == ("0", "1")
    assert (tcp["NCCL_IB_DISABLE"], tcp["HOROVOD_MPI_THREADS_DISABLE"]) == ("1", "0")


def test_a_mirror_and_its_login_count_for_jobs_too(lab: Lab) -> None:
    assert lab.cluster
    registry = Registry(mirrors={"192.168.100.10:5000": "mirror.example/lab"}, pull_secret="login")
    job = rendered(lab.model_copy(update={"cluster": lab.cluster.model_copy(update={"registry": registry})}))

    assert container(job)["image"] == container(job, "Launcher")["image"] == "mirror.example/lab/nccl-roce-test:deepops"
    for role in ("Launcher", "Worker"):
        pod = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]
        assert pod["imagePullSecrets"] == [{"name": "login"}]


def test_workers_ask_for_the_runtime_that_shows_gpus_where_it_is_not_the_default(lab: Lab) -> None:
    assert lab.cluster
    with_plugin = lab.model_copy(update={"cluster": lab.cluster.model_copy(update={"gpus": "device_plugin"})})
    default = Gpu(toolkit=ContainerToolkit(default_runtime=True))

    assert worker(rendered(with_plugin))["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in worker(rendered(with_plugin.model_copy(update={"gpu": default})))["spec"]
    assert "runtimeClassName" not in worker(rendered(lab))["spec"], "somebody else offers GPUs, and knows how"


def test_nodes_that_are_kept_for_gpus_take_the_workers_and_the_launcher(lab: Lab) -> None:
    job = rendered(lab)
    for role in ("Launcher", "Worker"):
        tolerated = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["tolerations"]
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in tolerated


DEDICATED = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
"""The taint of GPU pools in AKS's own documentation."""
QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}
NO_SIDECAR = {"sidecar.istio.io/inject": "false"}


def placed(lab: Lab) -> Lab:
    file = lab.model_dump(mode="json", exclude_unset=True)
    file["benchmarks"] |= {"tolerations": [DEDICATED], "labels": QUEUE, "annotations": NO_SIDECAR}
    return Lab.model_validate(file)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", JOBS)
def test_a_job_and_each_of_its_pods_have_the_queue_and_the_tolerations_of_the_lab(
    lab: Lab, name: str, transport: str
) -> None:
    job, without = rendered(placed(lab), name, transport), rendered(lab, name, transport)
    pods = [replica["template"] for replica in job["spec"]["mpiReplicaSpecs"].values()]

    assert len(pods) == 2
    for owner in (job, *pods):
        assert QUEUE.items() <= owner["metadata"]["labels"].items()
        assert NO_SIDECAR.items() <= owner["metadata"]["annotations"].items()
    for pod in pods:
        assert pod["spec"]["tolerations"][-1] == DEDICATED
    assert worker(job)["metadata"]["annotations"].get(NETWORKS) == worker(without)["metadata"].get(
        "annotations", {}
    ).get(NETWORKS), "the networks stay"


def test_every_job_and_pod_of_a_plan_is_placed_as_the_lab_says(lab: Lab) -> None:
    plan = plan_for(placed(lab))
    assert plan.nccl
    assert plan.pods
    jobs = [all_reduce_job(plan.nccl, "lab", "r1"), node_ring_job(plan.nccl, "lab", "r1")]
    documents: list[Any] = [*jobs, *(plan.pods.document(node, "lab", "r1") for node in plan.pods.nodes)]

    assert len(documents) == 4
    for document in documents:
        assert QUEUE.items() <= document["metadata"]["labels"].items()
        assert str(DEDICATED) in str(document)


def test_the_labels_by_which_a_run_is_found_stay(lab: Lab) -> None:
    plan = plan_for(placed(lab))
    assert plan.nccl

    job: Any = all_reduce_job(plan.nccl, "lab", "r1")
    assert job["metadata"]["labels"] == {**QUEUE, LAB_LABEL: "lab", RUN_LABEL: "r1"}
