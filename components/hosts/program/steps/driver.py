"""The driver of the RoCE NICs: kept and verified, or replaced by another source when the lab asks
for that.
"""

from typing import Any, Dict, List, Set

from .. import ofed
from ..containers import refuse_package_scripts_under_containers
from ..distribution import install
from ..host import Document, Host
from ..identity import pin_names
from ..machine import StepError
from ..modules_built import (
    BUILD_S,
    DRIVER_S,
    MLX5,
    build_for_this_kernel,
    missing_headers,
    module_file,
)
from ..places import LINK_FILE
from ..software import (
    fetch,
    install_file,
    installed_packages,
    refuse_firmware_updates,
    remove,
    version_field,
)
from ..step import Fields, Step, section_of

UNPACKED = "/var/cache/rocelab/mlnx_ofed"
VENDOR = ("doca_ofed", "mlnx_ofed")
INBOX = "inbox"
KEPT = "loaded"
SHOWN_PACKAGES = 12
SHOWN_HOLDERS = 3


class DriverStep(Step):
    """A driver counts only if it is installed, built for the running kernel, and loaded.

    Nothing is removed without `replace`, and then only packages of the driver's own; firmware is
    never written.
    """

    name = "driver"
    order = 310
    longest_s = DRIVER_S
    keeps = ("driver",)
    effects = {"driver": "reboot", "driver_built": "none", "driver_loaded": "reboot"}
    files = (LINK_FILE.format("*"),)
    services = ("openibd.service",)
    repairs = {"driver_built": "service"}
    version_setting = "driver.version"
    upgrade = "kubectl drain it, install the driver as its vendor says, reboot, kubectl uncordon it"

    def target(self, document: Document) -> Fields:
        declared = document.get("driver")
        if not declared:
            return {}
        if declared["source"] == "keep":
            return {"driver": declared["version"] or KEPT}
        if declared["source"] == "inbox":
            return {"driver": INBOX, **({"driver_loaded": INBOX} if declared["in_use"] else {})}
        fields: Fields = {"driver": declared["version"], "driver_built": ofed.BUILT}
        if declared["in_use"]:
            fields["driver_loaded"] = ofed.AS_INSTALLED
        return fields

    def takes_s(self, document: Document) -> int:
        source = section_of(document, "driver").get("source", "keep")
        return self.longest_s if source != "keep" else 0

    def versions(self, document: Document) -> Dict[str, str]:
        declared = section_of(document, "driver")
        return {"driver": declared["version"]} if declared.get("source") in VENDOR else {}

    def observed(self, host: Host) -> Fields:
        machine, declared = host.machine, host.document["driver"]
        version = ofed.ofed_version(machine)
        if declared["source"] == "keep":
            return {"driver": self._kept(host, version)}
        if declared["source"] == "inbox":
            own = INBOX if module_file(machine, MLX5).path else f"no {MLX5}"
            fields: Fields = {"driver": version or own}
            loaded = INBOX if ofed.runs_inbox(machine) else "a module from outside the kernel"
        else:
            installed = version_field(version or INBOX, declared["version"])
            fields = {"driver": installed, "driver_built": ofed.built(machine)}
            loaded = ofed.loaded(machine)
        return {**fields, "driver_loaded": loaded} if declared["in_use"] else fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        declared = host.document["driver"]
        if declared["source"] == "keep":
            raise StepError(
                f"the NIC driver is {self.observed(host)['driver']}, not "
                f"{self.target(host.document)['driver']}",
                "driver.source: keep only compares; install it yourself, or set another source",
            )
        running = host.machine.exists(f"/sys/module/{MLX5}")
        # checked before anything is replaced: afterwards only a reboot restores the old driver
        held = self._held(host) if running and not host.document.get("may_reboot") else []
        if held:
            for field in wrong:
                host.wait_for_reboot(
                    field,
                    f"{field} {self.observed(host)[field]} => {self.target(host.document)[field]}: "
                    "a new driver would be loaded by a reboot "
                    f"({'; '.join(held[:SHOWN_HOLDERS])}); nothing was installed or removed, "
                    "since a driver is replaced only with hosts.reboot: roll",
                )
            return
        if "driver" in wrong:
            self._replace(host)
        elif "driver_built" in wrong:
            if headers := missing_headers(host.machine):  # a newer kernel came without them
                install(host.machine, headers)
            build_for_this_kernel(host.machine)
        if declared["in_use"]:
            self._load(host)

    def files_to_write(self, host: Host) -> List[str]:
        return [] if host.document["driver"]["source"] == "keep" else list(self.files)

    def facts(self, host: Host) -> Dict[str, Any]:
        machine, module = host.machine, f"/sys/module/{MLX5}"
        versions = {
            "ofed": ofed.ofed_version(machine),
            "installed": module_file(machine, MLX5).version,
            "loaded": machine.read(f"{module}/version"),
        }
        if machine.exists(module):
            versions["state"] = ofed.loaded(machine)
        return {
            "driver": {key: value for key, value in versions.items() if value} or {"ofed": "none"}
        }

    def _kept(self, host: Host, version: str) -> str:
        declared, machine = host.document["driver"], host.machine
        drivers = {host.driver(pf["interface"]) for pf in host.pfs}
        if MLX5 not in drivers and not machine.exists(f"/sys/module/{MLX5}"):
            return f"not there: {MLX5} is not loaded"
        running = version or machine.read(f"/sys/module/{MLX5}/version") or INBOX
        return version_field(running, declared["version"], KEPT)

    def _replace(self, host: Host) -> None:
        machine, declared = host.machine, host.document["driver"]
        old = ofed.ofed_version(machine)
        refuse_package_scripts_under_containers(machine, "a NIC driver")
        pin_names(host)
        if declared["download"] and (declared["replace"] or not old):
            # before the old driver is removed: a failed download must not leave the host without
            # one
            fetch(machine, declared["download"])
        if old:
            self._refuse_firmware_beforehand(host)
            self._remove(host, old)
        if declared["source"] == "doca_ofed":
            if declared["download"]:
                install_file(machine, declared["download"])
            names = [*missing_headers(machine), *declared["packages"]]
            refuse_firmware_updates(machine, names)
            install(machine, names)
        elif declared["source"] == "mlnx_ofed":
            self._install_archive(host)
        elif not module_file(machine, MLX5).path:
            raise StepError(
                f"this kernel has no module {MLX5}",
                "Ubuntu has it in linux-modules-extra; Debian's cloud kernels omit it: see "
                "system.packages",
            )

    def _refuse_firmware_beforehand(self, host: Host) -> None:
        """Checks the new repository for firmware updates while the old driver still works.

        The check is repeated after the removal: with the old packages installed, a package manager
        may be unable to plan, and the removal takes the repository's own package away.
        """
        machine, declared = host.machine, host.document["driver"]
        if declared["source"] != "doca_ofed" or not declared["replace"]:
            return
        if declared["download"]:
            try:
                install_file(machine, declared["download"], keep=True)
            except StepError:
                return  # for example older than the host's: that one must be removed first
        refuse_firmware_updates(machine, declared["packages"])

    def _remove(self, host: Host, old: str) -> None:
        machine, declared = host.machine, host.document["driver"]
        names = installed_packages(machine, ofed.PACKAGES)
        if not declared["replace"]:
            listed = ", ".join(names[:SHOWN_PACKAGES]) or "what ofed_uninstall.sh finds"
            more = f" and {len(names) - SHOWN_PACKAGES} more" if len(names) > SHOWN_PACKAGES else ""
            raise StepError(
                f"driver {old} is installed and works, but the lab file sets "
                f"{self.target(host.document)['driver']}",
                f"set driver.replace: true to remove it first; this also removes {listed}{more}",
            )
        if machine.exists("/usr/sbin/ofed_uninstall.sh"):
            machine.must("/usr/sbin/ofed_uninstall.sh", "--force", timeout_s=BUILD_S)
            names = installed_packages(machine, ofed.PACKAGES)
        remove(machine, names)

    def _install_archive(self, host: Host) -> None:
        machine, declared = host.machine, host.document["driver"]
        place = machine.path(fetch(machine, declared["download"]))
        folder = machine.path(UNPACKED)
        machine.must("rm", "-rf", folder)
        machine.must("mkdir", "-p", folder)
        machine.must("tar", "-xzf", place, "-C", folder, "--strip-components=1", timeout_s=BUILD_S)
        kind = declared["kernel_modules"]
        words = ["--force", "--without-fw-update", "-q"]
        if kind in ("dkms", "add_kernel_support"):
            words.append(f"--{kind.replace('_', '-')}")
        machine.must(f"{folder}/mlnxofedinstall", *words, timeout_s=BUILD_S)
        machine.must("rm", "-rf", folder, place)

    def _load(self, host: Host) -> None:
        machine = host.machine
        if not machine.exists(f"/sys/module/{MLX5}"):
            machine.must("modprobe", "-a", MLX5, "mlx5_ib")
        actual = self.observed(host)["driver_loaded"]
        if actual == self.target(host.document)["driver_loaded"]:
            return
        if held := self._held(host):
            reasons = "; ".join(held[:SHOWN_HOLDERS])
            host.wait_for_reboot("driver_loaded", f"driver_loaded: {actual} ({reasons})")
            return
        # it removes VFs and links; later steps create them again
        machine.must("/etc/init.d/openibd", "restart", timeout_s=300)
        host.forget()

    def _held(self, host: Host) -> List[str]:
        """Why only a reboot can load another driver; empty when openibd may be restarted."""
        declared = host.document["driver"]
        if declared["restart"] != "openibd":
            return ["driver.restart is reboot"]
        if declared["source"] == "inbox":
            return ["the vendor's driver includes openibd"]
        return ofed.holders(host)
