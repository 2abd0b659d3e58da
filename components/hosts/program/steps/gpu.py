"""The GPU driver: kept and verified, or installed from packages when the lab asks for that."""

import os
import re
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Set

from ..containers import refuse_package_scripts_under_containers
from ..distribution import install
from ..host import Document, Host
from ..look.leaves import UnknownError
from ..machine import Done, Machine, StepError
from ..modules_built import (
    DRIVER_S,
    SIGNED_GPU,
    build_for_this_kernel,
    built_by_dkms,
    missing_headers,
    module_file,
    refuse_unsigned_modules,
    running_kernel,
)
from ..software import fetch, install_file, installed_packages, planned, remove, version_field
from ..step import Fields, Step, packaged, section_of

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

WORKS = "works"
AS_INSTALLED = "as installed"
PACKAGES = (
    r"^(nvidia-(?!container)|libnvidia-(?!container)|cuda-drivers|kmod-nvidia|"
    r"xserver-xorg-video-nvidia)"
)
"""Names of driver packages of NVIDIA's and the distributions' repositories; the container toolkit
is no driver."""
SHOWN_PACKAGES = 12
SMI_S = 90
"""Without persistence mode, nvidia-smi has to wake each GPU."""


class Gpus(NamedTuple):
    """What nvidia-smi reports, for all GPUs of a host together: they are expected to be of one
    model.
    """

    driver: str
    cuda: str
    attached: int
    product: str
    brand: str
    architecture: str
    trouble: str
    """Why nothing is known about the GPUs; empty otherwise."""


class GpuDriverStep(Step):
    """A working driver is never replaced without `replace`, and never unloaded: a new one waits for
    a reboot.
    """

    name = "gpu_driver"
    order = 350
    longest_s = DRIVER_S
    keeps = ("gpu",)
    effects = {"gpu_driver": "reboot", "gpu_driver_loaded": "reboot"}
    version_setting = "gpu.driver.version"
    upgrade = "kubectl drain it, install the driver, reboot, kubectl uncordon it"

    def target(self, document: Document) -> Fields:
        declared = section_of(document, "gpu", "driver")
        if not declared or declared["source"] == "operator":
            return {}
        loaded = {"gpu_driver_loaded": AS_INSTALLED} if declared["source"] == "packaged" else {}
        return {"gpu_driver": declared["version"] or WORKS, **loaded}

    def takes_s(self, document: Document) -> int:
        return self.longest_s if packaged(document, "gpu", "driver") else 0

    def versions(self, document: Document) -> Dict[str, str]:
        version = packaged(document, "gpu", "driver").get("version")
        return {"gpu_driver": version} if version else {}

    def observed(self, host: Host) -> Fields:
        declared, machine = host.document["gpu"]["driver"], host.machine
        if declared["source"] == "keep":
            reported = gpus(host)
            version = reported.trouble or version_field(reported.driver, declared["version"], WORKS)
            return {"gpu_driver": version}
        installed = _installed(machine)
        loaded = machine.read("/sys/module/nvidia/version")
        state = f"{loaded} is loaded" if loaded else "not loaded"
        if machine.exists("/sys/module/nouveau"):
            state = "nouveau is loaded"
        elif loaded and loaded == installed:
            state = AS_INSTALLED
        version = version_field(installed, declared["version"], WORKS)
        return {"gpu_driver": version, "gpu_driver_loaded": state}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        declared, machine = host.document["gpu"]["driver"], host.machine
        actual, target = self.observed(host), self.target(host.document)
        if declared["source"] == "keep":
            raise StepError(
                f"GPU driver: {actual['gpu_driver']}, but the lab file sets {target['gpu_driver']}",
                "gpu.driver.source: keep only compares; install it yourself, or set source: "
                "packaged",
            )
        if _runs(machine) and not host.document.get("may_reboot"):
            for field in wrong:
                host.wait_for_reboot(
                    field,
                    f"{field} {actual[field]} => {target[field]}: a loaded GPU driver is replaced "
                    "by a reboot; nothing was installed, since that needs hosts.reboot: roll",
                )
            return
        if "gpu_driver" in wrong:
            self._install(host)
            host.forget()
        if not _runs(machine):
            machine.must("modprobe", "-a", "nvidia")
            host.forget()
            return
        state = self.observed(host)["gpu_driver_loaded"]
        if state != AS_INSTALLED:
            reason = f"gpu_driver_loaded: {state}, {_installed(machine)} is installed"
            host.wait_for_reboot("gpu_driver_loaded", reason)

    def facts(self, host: Host) -> Dict[str, Any]:
        reported = gpus(host)
        if reported.trouble:
            return {"gpu": {"trouble": reported.trouble}}
        names = ("driver", "cuda", "product", "architecture")
        known = {key: getattr(reported, key) for key in names if getattr(reported, key)}
        return {"gpu": {**known, "count": reported.attached}}

    def _install(self, host: Host) -> None:
        declared, machine = host.document["gpu"]["driver"], host.machine
        old = _installed(machine)
        names = installed_packages(machine, PACKAGES) if old else []
        if old and not declared["replace"]:
            listed = ", ".join(names[:SHOWN_PACKAGES]) or "none: it was not installed from packages"
            raise StepError(
                f"GPU driver {old} is installed, but the lab file sets {declared['version']}",
                f"set gpu.driver.replace: true to remove it first; this also removes {listed}",
            )
        refuse_package_scripts_under_containers(machine, "the GPU driver")
        if declared["repository"]:
            install_file(machine, declared["repository"])  # before anything is removed
        file = declared.get("package")
        brought = [*declared["packages"], *([machine.path(fetch(machine, file))] if file else [])]
        stay = set(installed_packages(machine, PACKAGES)).difference(names)
        # the file of a guest driver contains sources, whatever its name
        built = bool(file) or built_by_dkms([*brought, *planned(machine, brought), *stay])
        if built:
            refuse_unsigned_modules(machine, SIGNED_GPU)
        remove(machine, names)
        install(machine, [*(missing_headers(machine) if built else []), *brought])
        if built and not _installed(machine):
            build_for_this_kernel(machine)  # packages that were already installed build nothing
        if not _installed(machine):
            raise StepError(
                f"packages {' '.join(map(os.path.basename, brought))} are installed, but none has "
                f"the module nvidia for kernel {running_kernel(machine)}",
                "dkms status and make.log below /var/lib/dkms show why; or list packages built for "
                "this kernel",
            )


def _installed(machine: Machine) -> str:
    return module_file(machine, "nvidia").version


def _runs(machine: Machine) -> bool:
    return machine.exists("/sys/module/nvidia") or machine.exists("/sys/module/nouveau")


def report(host: Host) -> "ET.Element":
    """What nvidia-smi reports of all GPUs; it runs once until something changes."""
    # XML takes 10 ms to import, and most labs do not ask for GPUs
    from ..look.gpu import QUERY, report_in  # noqa: PLC0415

    def query() -> Done:
        return host.machine.run(*QUERY, timeout_s=SMI_S)

    return report_in(host.remembered("nvidia-smi", query))


def gpus(host: Host) -> Gpus:
    try:
        return gpus_in(report(host))
    except UnknownError as error:
        return Gpus("", "", 0, "", "", "", str(error)[:150])


def gpus_in(report: "ET.Element") -> Gpus:
    """The first GPU's names, and what is common to all.

    Drivers before 470 report no architecture.
    """
    from ..look.gpu import text_of  # noqa: PLC0415  # as above

    product = text_of(report, "gpu/product_name")
    return Gpus(
        text_of(report, "driver_version"),
        text_of(report, "cuda_version"),
        int(text_of(report, "attached_gpus") or 0),
        product,
        text_of(report, "gpu/product_brand"),
        text_of(report, "gpu/product_architecture") or architecture_of(product),
        "",
    )


def architecture_of(product: str) -> str:
    """By the marketing name, of data-centre GPUs only; empty for others."""
    table = (
        (r"\b[PG]?V100|TITAN V", "Volta"),
        (r"\bP(4|40|100)\b", "Pascal"),
        (r"\bT4\b|RTX [3-8]000", "Turing"),
        (r"\bA(2|10|16|30|40|100|800)\b|RTX A", "Ampere"),
        (r"\bL(4|20|40S?)\b", "Ada Lovelace"),
        (r"\bG?H(20|100|200|800)\b", "Hopper"),
        (r"\bG?B(100|200|300)\b", "Blackwell"),
    )
    return next((name for pattern, name in table if re.search(pattern, product)), "")
