"""Labs that ask hosts for the vendor's software, and how their host program is run."""

from collections.abc import Sequence
from typing import Any

from components.hosts.document import host_document
from stacks.drivers import Firmware, NicDriver
from stacks.gpus import Gpu
from stacks.lab import Lab
from stacks.runtime import Runtime
from tests.components.hosts.host_runs import run
from tests.components.hosts.vendor_kernel import VendorHost, smi_of

WANTED = "25.07-0.9.7"


def asks(lab: Lab, reboot: str = "roll", convert: Sequence[str] = (), **sections: object) -> dict[str, Any]:
    """The document of a ConnectX host in a lab with these sections; `convert` are PFs that leave InfiniBand."""
    kinds = {"driver": NicDriver, "firmware": Firmware, "gpu": Gpu, "runtime": Runtime}
    made = {key: kinds[key].model_validate(value) for key, value in sections.items()}
    hosts = lab.hosts.model_copy(update={"reboot": reboot})
    node = lab.nodes[0]
    pfs = tuple(
        pf.model_copy(
            update={
                "driver": "mlx5_core",
                "rdma_device": f"mlx5_{i}",
                "vfs": 0,
                "convert_infiniband": pf.interface in convert,
            }
        )
        for i, pf in enumerate(node.pfs)
    )
    return host_document(lab.model_copy(update={"hosts": hosts, **made}), node.model_copy(update={"pfs": pfs}))


def applied(host: VendorHost, document: dict[str, Any]) -> dict[str, Any]:
    result = run("apply", host, document)
    run("confirm", host, document)
    return result


def commands_with(host: VendorHost, *words: str) -> list[str]:
    return [command for command in host.commands if any(word in command for word in words)]


CHANGING = (" install ", " purge ", "rpm -e", " -y set ", "modprobe", "openibd", "restart", "prlimit")


def unchanged_by_a_second_run(host: VendorHost, document: dict[str, Any]) -> None:
    host.commands.clear()
    result = run("apply", host, document)
    assert (result["failed"], result["changed"]) == (None, [])
    assert commands_with(host, *CHANGING) == []


def with_module_file(host: VendorHost, version: str) -> None:
    host.gpu_module = version


def secure_boot_on(host: VendorHost) -> None:
    variable = host.folder / "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    variable.parent.mkdir(parents=True)
    variable.write_bytes(b"\x06\0\0\0\x01")


def held_by(host, name, *modules):
    """A folder per module that is used: Linux Documentation/ABI/testing/sysfs-module, `holders`.

    nvidia_peermem that holds ib_uverbs stopped openibd half-way: Mellanox/doca-driver-build#481.
    """
    for module in modules:
        host.file(f"/sys/module/{module}/holders/{name}/refcnt", "0")
    host.file("/sys/module/ib_core/holders/mlx5_ib/refcnt", "1")  # openibd takes that away itself


def with_gpu(host: VendorHost, form: str, version: str) -> None:
    host.smi = smi_of(form)
    host.gpu_module = version
    host.file("/sys/module/nvidia/version", version)
    host.file("/proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}\n")
