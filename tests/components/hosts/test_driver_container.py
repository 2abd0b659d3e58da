"""A host whose driver a container is to replace says early what would stop the container, and keeps its netdevs' names.

The lists are those of doca-driver-build (entrypoint/internal/config/config.go: StorageModules; pull request 298:
others), what an ordinary host has loaded is rdma-core's kernel-boot/modules/rdma.conf, and that the container ends is
entrypoint.sh ("Storage modules are loaded for current driver, terminating") and network-operator#1084.
"""

import pytest
import yaml
from pydantic import ValidationError

from components.cluster.policies import render_nic_policy
from components.hosts.program.places import LINK_FILE
from stacks.drivers import NicDriver
from tests.components.cluster.conftest import profiled
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.vendor_lab import applied, asks, held_by
from tests.messages import states

UNLOAD = {"UNLOAD_STORAGE_MODULES": "true"}


def operated(lab, **env):
    return asks(lab, driver={"source": "operator", "container_env": env})


def ordinary(host):
    """rdma-core loads ib_iser, and xprtrdma and svcrdma, which are one module, where it finds an RDMA NIC."""
    host.file("/sys/module/ib_core/holders/ib_iser/refcnt", "0\n")
    host.file("/sys/module/rpcrdma/refcnt", "0\n")
    host.file("/sys/module/ib_core/holders/rpcrdma/refcnt", "0\n")


def test_an_ordinary_host_is_refused_with_the_loaded_modules_and_the_switch(host, lab):
    ordinary(host)

    result = run("apply", host, operated(lab))

    assert result["failed"]["step"] == "driver_container"
    assert states(result["failed"]["reason"], "storage", "rpcrdma")
    assert 'container_env: {UNLOAD_STORAGE_MODULES: "true"}' in result["failed"]["hint"]
    assert (result["changed"], host.written) == ([], [])


def test_with_leave_to_unload_them_the_host_is_ready_and_every_name_is_pinned(host, lab):
    ordinary(host)
    document = operated(lab, **UNLOAD)

    assert applied(host, document)["failed"] is None

    assert differing(host, document) == {}
    assert host.exists(LINK_FILE.format("enp5s0"))


def test_storage_in_use_is_never_left_to_the_container(host, lab):
    host.file("/sys/module/nvme_rdma/refcnt", "2\n")

    failed = run("apply", host, operated(lab, **UNLOAD))["failed"]

    assert failed["step"] == "driver_container"
    assert states(failed["reason"], "storage", "nvme_rdma")


def test_another_vendors_rdma_driver_is_named_and_peer_memory_is_the_containers_own_business(host, lab):
    held_by(host, "nvidia_peermem", "ib_uverbs")
    assert run("apply", host, operated(lab))["failed"] is None
    held_by(host, "irdma", "ib_core")

    failed = run("apply", host, operated(lab))["failed"]

    assert failed["step"] == "driver_container"
    assert states(failed["reason"], "irdma", "ib_core")
    assert "UNLOAD_THIRD_PARTY_RDMA_MODULES" in failed["hint"]


def test_a_host_that_runs_the_containers_driver_is_not_asked_again(host, lab):
    ordinary(host)
    host.file("/sys/module/mlx5_core/taint", "OE\n")

    assert run("apply", host, operated(lab))["failed"] is None


def test_the_environment_reaches_the_driver_container(lab):
    made = profiled(lab, {"profile": "sriov_operator", "vfs": 8})
    driver = NicDriver(source="operator", container_env={**UNLOAD, "ENABLE_NFSRDMA": "false"})
    made = made.model_copy(update={"driver": driver})

    assert made.cluster is not None
    policy = yaml.safe_load(yaml.safe_dump(render_nic_policy(made, made.cluster)))

    assert policy["spec"]["ofedDriver"]["env"] == [
        {"name": "ENABLE_NFSRDMA", "value": "false"},
        {"name": "UNLOAD_STORAGE_MODULES", "value": "true"},
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": "keep", "container_env": UNLOAD}, "container_env is for source operator"),
        ({"source": "operator", "container_env": {"UBUNTU_PRO_TOKEN": "x"}}, "plain text"),
        ({"source": "operator", "container_env": {"lower": "x"}}, "should match pattern"),
    ],
)
def test_an_environment_that_cannot_be_is_a_fault_of_the_file(given, said):
    with pytest.raises(ValidationError, match=said):
        NicDriver.model_validate(given)
