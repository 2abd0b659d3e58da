"""The GPU driver: kept and verified, or installed from packages when the lab asks for that."""

import os
from typing import Any, Dict, Set

from .. import nvidia
from ..containers import refuse_package_scripts_under_containers
from ..distribution import install
from ..host import Document, Host
from ..machine import Machine, StepError
from ..modules_built import (
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

WORKS = "works"
AS_INSTALLED = "as installed"
PACKAGES = (
    r"^(nvidia-(?!container)|libnvidia-(?!container)|cuda-drivers|kmod-nvidia|"
    r"xserver-xorg-video-nvidia)"
)
"""Names of driver packages of NVIDIA's and the distributions' repositories; the container toolkit
is no driver."""
SHOWN_PACKAGES = 12


class GpuDriverStep(Step):
    """A working driver is never replaced without `replace`, and never unloaded.

    A new one waits for a reboot.
    """

    name = "gpu_driver"
    order = 350
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

    def versions(self, document: Document) -> Dict[str, str]:
        version = packaged(document, "gpu", "driver").get("version")
        return {"gpu_driver": version} if version else {}

    def observed(self, host: Host) -> Fields:
        declared, machine = host.document["gpu"]["driver"], host.machine
        if declared["source"] == "keep":
            gpus = nvidia.gpus(host)
            version = gpus.trouble or version_field(gpus.driver, declared["version"], WORKS)
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
        if _runs(machine) and not host.document["gpu"]["may_reboot"]:
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
        gpus = nvidia.gpus(host)
        if gpus.trouble:
            return {"gpu": {"trouble": gpus.trouble}}
        names = {key: getattr(gpus, key) for key in ("driver", "cuda", "product", "architecture")}
        known = {key: value for key, value in names.items() if value}
        return {"gpu": {**known, "count": gpus.attached}}

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
