"""How the kernel chooses the clock rate of each core."""

from typing import Any, Dict, List, Set

from ..host import Document, Host
from ..machine import StepError
from ..step import Before, Fields, Step

CPUFREQ = "/sys/devices/system/cpu/cpufreq"


class Governor(Step):
    """Set now, and at each boot by the unit. Where firmware or a hypervisor governs, there is
    nothing to set.
    """

    name = "cpu_governor"
    order = 260
    at_boot = True
    setting = "system.cpu_governor"
    keeps = ("cpu_governor",)
    effects = {"cpu_governor": "none"}

    def target(self, document: Document) -> Fields:
        return {"cpu_governor": document["cpu_governor"]} if document.get("cpu_governor") else {}

    def observed(self, host: Host) -> Fields:
        governors = " ".join(sorted(set(self.before(host).values())))
        return {"cpu_governor": governors or host.document["cpu_governor"]}

    def facts(self, host: Host) -> Dict[str, Any]:
        if _policies(host):
            return {}
        return {"cpu_governor": "no cpufreq: firmware or hypervisor chooses the clock rate"}

    def refuse(self, host: Host) -> None:
        target = host.document["cpu_governor"]
        # at boot the VFs must not wait for this
        for policy in [] if host.booting else _policies(host):
            offered = host.machine.read(policy + "/scaling_available_governors").split()
            if target not in offered:
                driver = host.machine.read(policy + "/scaling_driver") or "unknown"
                raise StepError(
                    f"{policy} (driver {driver}) offers {', '.join(offered) or 'nothing'}, but the "
                    f"lab file sets {target}",
                    f"load the module cpufreq_{target}, or set system.cpu_governor: keep",
                )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for policy in _policies(host):
            _set(host, policy, host.document["cpu_governor"])

    def before(self, host: Host) -> Before:
        policies = _policies(host)
        return {policy: host.machine.read(policy + "/scaling_governor") for policy in policies}

    def undo(self, host: Host, before: Before) -> None:
        for policy, governor in before.items():
            if host.machine.exists(policy):
                _set(host, policy, governor)


def _policies(host: Host) -> List[str]:
    return [
        f"{CPUFREQ}/{name}" for name in host.machine.names(CPUFREQ) if name.startswith("policy")
    ]


def _set(host: Host, policy: str, governor: str) -> None:
    if host.machine.read(policy + "/scaling_governor") != governor:
        host.machine.write(policy + "/scaling_governor", governor)
