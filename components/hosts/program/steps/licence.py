"""The license of a vGPU guest driver: token or license server, the licensing daemon, and whether it
got one.
"""

import re
from typing import TYPE_CHECKING, Any, Dict, Set

from ..host import Document, Host
from ..look.leaves import UnknownError
from ..machine import Machine, StepError, first_match
from ..secret_files import DELIVERED, MISSING, delivered, source_of, state_of
from ..step import Before, Fields, Step
from .clock import NOT_IN_STEP, state_by_systemd
from .gpu import SMI_S, report

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

SETTINGS_FILE = "/etc/nvidia/gridd.conf"
TEMPLATE = SETTINGS_FILE + ".template"
TOKENS = "/etc/nvidia/ClientConfigToken"
TOKEN_FILE = TOKENS + "/client_configuration_token_rocelab.tok"
DAEMON = "nvidia-gridd.service"
OURS = ("ServerAddress", "ServerPort", "BackupServerAddress", "FeatureType")
LICENSED = "Licensed"
CLOCK_WARNING = (
    "the clock is not synchronized, but license tokens are valid only for a period: "
    "set system.clock, {daemon: chrony} or another daemon of yours with {daemon: keep}"
)
LICENCE_WAIT_S = 90
"""gridd asks its server every few seconds, and the first answer over the internet can be slow."""


class Licence(Step):
    """Other settings in gridd.conf stay. The token is read from the login's home and is never in a
    document.
    """

    name = "licence"
    order = 610
    longest_s = LICENCE_WAIT_S + SMI_S
    keeps = ("licence",)
    effects = {"licence": "none", "licence_settings": "none", "licence_token": "none"}
    files = (SETTINGS_FILE, TOKEN_FILE)
    services = (DAEMON,)
    repairs = {"licence": "service", "licence_settings": "service", "licence_token": "service"}

    def target(self, document: Document) -> Fields:
        declared = document.get("licence")
        if not declared:
            return {}
        token = {"licence_token": DELIVERED} if declared["kind"] == "nls" else {}
        return {"licence_settings": _shown(declared["settings"]), **token, "licence": LICENSED}

    def observed(self, host: Host) -> Fields:
        machine, declared = host.machine, host.document["licence"]
        observed = {}
        for key, value in _pairs(machine.read(SETTINGS_FILE)).items():
            if key in OURS and value:
                observed[key] = value
        fields: Fields = {
            "licence_settings": _shown(observed),
            "licence": self._status(host)["status"],
        }
        if declared["kind"] == "nls":
            fields["licence_token"] = state_of(
                delivered(machine, "licence"), machine.content(TOKEN_FILE)
            )
        return fields

    def refuse(self, host: Host) -> None:
        others = [name for name in host.machine.names(TOKENS) if f"{TOKENS}/{name}" != TOKEN_FILE]
        if others and host.document["licence"]["kind"] == "nls":
            raise StepError(
                f"{TOKENS} holds {others[0]}, but the driver needs exactly one token",
                "move it away; rocelab never changes files that it did not write",
            )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, declared = host.machine, host.document["licence"]
        if machine.run("systemctl", "cat", DAEMON).code:
            raise StepError(
                f"{DAEMON} does not exist: this guest has no vGPU driver",
                "NVIDIA's guest driver is not in public repositories; to install your own, set "
                "gpu.driver.source: packaged",
            )
        if "licence_token" in wrong:
            _install_token(machine)
        if "licence_settings" in wrong:
            text = machine.read(SETTINGS_FILE) or machine.read(TEMPLATE)
            machine.put(SETTINGS_FILE, settings_text(text, declared["settings"]))
        machine.must("systemctl", "restart", DAEMON, timeout_s=60)
        host.forget()
        if not machine.wait(lambda: self._is_licensed(host), LICENCE_WAIT_S):
            raise StepError(
                f"the vGPU is {self._status(host)['status']} {LICENCE_WAIT_S} s after {DAEMON} was "
                "restarted",
                f"check that this guest reaches {declared['server']}, its clock, and that a "
                "license is free: journalctl -u nvidia-gridd",
            )

    def facts(self, host: Host) -> Dict[str, Any]:
        document, status = host.document, self._status(host)
        facts: Dict[str, Any] = {"licence": {key: text for key, text in status.items() if text}}
        # the step clock reports it
        checked = document.get("clock") or document["licence"]["kind"] != "nls"
        if not checked and state_by_systemd(host.machine) == NOT_IN_STEP:
            facts["warnings"] = [CLOCK_WARNING]
        return facts

    def before(self, host: Host) -> Before:
        return {"gridd": host.machine.content(SETTINGS_FILE).decode(errors="replace")}

    def undo(self, host: Host, before: Before) -> None:
        machine = host.machine
        ours = machine.remove(TOKEN_FILE)
        machine.remove(source_of(machine, "licence"))
        if machine.content(SETTINGS_FILE) != before["gridd"].encode():
            machine.restore(SETTINGS_FILE, before["gridd"] or None)
            ours = True
        if ours:
            machine.run("systemctl", "restart", DAEMON, timeout_s=60)  # returns the license

    def _status(self, host: Host) -> Dict[str, str]:
        try:
            return licence_in(report(host))
        except UnknownError as error:
            return {"status": str(error)}

    def _is_licensed(self, host: Host) -> bool:
        host.forget()
        if self._status(host)["status"] == LICENSED:
            return True
        host.machine.pause(2)
        return False


def _install_token(machine: Machine) -> None:
    token = delivered(machine, "licence")
    if not token:
        raise StepError(
            f"the license token was {MISSING}",
            "pulumi config set --secret rocelab:licenceToken < client_configuration_token.tok, "
            "then pulumi up",
        )
    machine.put(TOKEN_FILE, token, mode=0o600)


def settings_text(text: str, settings: Dict[str, str]) -> str:
    """gridd.conf with these settings instead of earlier values; comments and everything
    else stay.
    """
    kept = [line for line in text.splitlines() if line.partition("=")[0].strip() not in OURS]
    lines = [f"{key}={value}" for key, value in settings.items()]
    return "\n".join([*kept, *lines]) + "\n"


def licence_in(report: "ET.Element") -> Dict[str, str]:
    """Status, expiry and product in what nvidia-smi reports.

    Drivers name the section variously. Several vGPUs count as licensed when all of them are.
    """
    statuses = [(element.text or "").strip() for element in report.iter("license_status")]
    if not statuses:
        return {"status": "no licensed product", "expiry": "", "product": ""}
    unlicensed = [text for text in statuses if not text.startswith(LICENSED)]
    state = (unlicensed or statuses)[0]
    return {
        "status": unlicensed[0] if unlicensed else LICENSED,
        "expiry": first_match(r"\(Expiry: (.+?)\)", state),
        "product": (report.findtext(".//licensed_product_name") or "").strip(),
    }


def _pairs(text: str) -> Dict[str, str]:
    return dict(re.findall(r"^[ \t]*(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))


def _shown(settings: Dict[str, str]) -> str:
    return ", ".join(f"{key}={settings[key]}" for key in sorted(settings)) or "none"
