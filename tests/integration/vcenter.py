"""A simulated vCenter of a test's own, and the objects in it."""

import hashlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.session import VcenterEndpoint
from tests.conftest import ROOT

OURS = ROOT / ".engine/bin/vcenter"
"""govmomi's simulator with what `engine/vcenter` adds to it."""
ADDRESS = "127.0.12.203"
PASSWORD = "canary-of-the-vcenter"
HOSTS = ("DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2", "DC0_C0_H3")
"""The hosts of the cluster. A machine gets a port of a distributed switch only where all of them are its members."""
START_S = 60
TASK_S = 60


@contextmanager
def running(folder: Path, *flags: str, program: Path = OURS) -> Iterator[VcenterEndpoint]:
    """A vCenter with the first inventory, ended afterwards; `folder` takes its password's file."""
    (folder / "password").write_text(PASSWORD)
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    own = [f"-listen={ADDRESS}:{port}", "-username=rocelab", f"-password-file={folder / 'password'}"]
    process = subprocess.Popen([program, *own, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seen = thumbprint(ADDRESS, port)
        _wait_for_control(flags)  # it listens a moment later
        yield VcenterEndpoint(address=ADDRESS, port=port, user="rocelab", password=PASSWORD, thumbprint_sha256=seen)
    finally:
        process.terminate()
        process.wait()


def _wait_for_control(flags: tuple[str, ...]) -> None:
    path = next((flag.removeprefix("-control=") for flag in flags if flag.startswith("-control=")), "")
    deadline = time.monotonic() + START_S
    with socket.socket(socket.AF_UNIX) as ours:
        while path and ours.connect_ex(path) != 0:
            assert time.monotonic() < deadline, f"the simulated vCenter does not answer on {path}"
            time.sleep(0.1)


def thumbprint(address: str, port: int) -> str:
    """sha256 of the certificate that answers there, as soon as something does."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            presented = ssl.get_server_certificate((address, port), timeout=5)
        except OSError:
            assert time.monotonic() < deadline, "the simulated vCenter does not answer"
            time.sleep(0.1)
        else:
            return hashlib.sha256(ssl.PEM_cert_to_DER_cert(presented)).hexdigest()


def machine_named(host: vim.HostSystem, name: str) -> Any:
    """A VM of the host's datacenter."""
    folder = host.parent.parent.parent.vmFolder
    return next(one for one in folder.childEntity if one.name == name)


def network_named(host: vim.HostSystem, name: str) -> Any:
    """A distributed switch or port group of the host's datacenter."""
    return next(one for one in host.parent.parent.parent.networkFolder.childEntity if one.name == name)


def move_uplink(vcenter: VCenter, name: str, nic: str) -> None:
    """Gives a host another NIC on the switch, as its administrator can."""
    host = vcenter.host(name)
    switch = network_named(host, "rail-a")
    backing = vim.dvs.HostMember.PnicBacking(pnicSpec=[vim.dvs.HostMember.PnicSpec(pnicDevice=nic)])
    member = vim.dvs.HostMember.ConfigSpec(operation="edit", host=host, backing=backing)
    spec = vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec(configVersion=switch.config.configVersion, host=[member])
    done(switch.ReconfigureDvs_Task(spec))


def done(task: vim.Task) -> None:
    """Waits for the good end of a task.

    Not by pyVim's own wait, which wants every task that still runs to tell its method: those of this vCenter do not.
    """
    deadline = time.monotonic() + TASK_S
    while (state := str(task.info.state)) in ("queued", "running"):
        assert time.monotonic() < deadline, f"{task} does not end"
        time.sleep(0.02)
    assert state == "success", task.info.error


def a_machine(
    host: vim.HostSystem, name: str, *, folder: vim.Folder | None = None, directory: str = "", firmware: str = "bios"
) -> None:
    """A VM of somebody else on that host, which runs: one CPU, 1 GB of memory, an adapter and nothing reserved."""
    backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName="VM Network")
    adapter = vim.vm.device.VirtualDeviceSpec(
        operation="add", device=vim.vm.device.VirtualVmxnet3(key=-1, backing=backing)
    )
    spec = vim.vm.ConfigSpec(
        name=name,
        guestId="debian12_64Guest",
        firmware=firmware,
        version="vmx-17",
        numCPUs=1,
        memoryMB=1024,
        files=vim.vm.FileInfo(vmPathName=f"[LocalDS_0] {directory}/{name}.vmx" if directory else "[LocalDS_0]"),
        deviceChange=[adapter],
    )
    place = folder or host.parent.parent.parent.vmFolder
    done(place.CreateVM_Task(spec, host.parent.resourcePool, host))
    done(next(one for one in place.childEntity if one.name == name).PowerOnVM_Task())


def an_rdma_switch(vcenter: VCenter, name: str, hosts: tuple[str, ...]) -> str:
    """A switch of somebody else without uplinks; the managed object id of its port group `<name>-rdma`."""
    dvs = vim.dvs.VmwareDistributedVirtualSwitch
    members = [vim.dvs.HostMember.ConfigSpec(operation="add", host=vcenter.host(one)) for one in hosts]
    spec = vim.DistributedVirtualSwitch.CreateSpec(configSpec=dvs.ConfigSpec(name=name, maxMtu=9000, host=members))
    made = vcenter.host(hosts[0]).parent.parent.parent.networkFolder.CreateDVS_Task(spec)
    done(made)
    group = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(name=f"{name}-rdma", type="earlyBinding", numPorts=8)
    done(made.info.result.AddDVPortgroup_Task([group]))
    return next(str(one._GetMoId()) for one in made.info.result.portgroup if one.name == f"{name}-rdma")
