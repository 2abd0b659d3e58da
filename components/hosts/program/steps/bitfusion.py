"""The client of vSphere Bitfusion: installed, and authorised to use the GPUs of its servers.

Written after the Bitfusion article and the product's documentation; never run against the product,
which VMware has ended.
"""

import base64
import io
import os
import tarfile
from typing import Any, Dict, Set

from ..distribution import INSTALL_S, installed_versions
from ..host import Document, Host
from ..machine import Machine, StepError
from ..secret_files import DELIVERED, MISSING, delivered, source_of
from ..software import install_file
from ..step import Before, Fields, Step, value_or_reason

PACKAGE = "bitfusion-client"
HOME = "/root"
"""Home of the user that runs the client, which reads its token there; other users of the host need
a copy."""
FILES = {
    "client.yaml": HOME + "/.bitfusion/client.yaml",
    "servers.conf": "/etc/bitfusion/servers.conf",
    "ca.crt": "/etc/bitfusion/tls/ca.crt",
}
"""The files in the plug-in's token, and where the client reads them."""
AUTHORISED = "yes"
ANSWER_S = 60


class BitfusionClientStep(Step):
    """A machine that vCenter's plug-in has enabled is only checked; elsewhere the plug-in's token
    is put in place.
    """

    name = "bitfusion"
    order = 620
    longest_s = INSTALL_S
    keeps = ("bitfusion",)
    effects = {
        "bitfusion_client": "none",
        "bitfusion_token": "none",
        "bitfusion_authorised": "none",
    }
    files = tuple(FILES.values())
    repairs = {"bitfusion_client": "service"}

    def target(self, document: Document) -> Fields:
        declared = document.get("bitfusion")
        if not declared:
            return {}
        if declared["authorisation"] == "token":
            return {"bitfusion_client": declared["version"], "bitfusion_token": DELIVERED}
        return {"bitfusion_client": declared["version"], "bitfusion_authorised": AUTHORISED}

    def observed(self, host: Host) -> Fields:
        fields: Fields = {
            "bitfusion_client": value_or_reason(lambda: _version(host.machine) or "not installed")
        }
        if host.document["bitfusion"]["authorisation"] == "token":
            return {**fields, "bitfusion_token": value_or_reason(lambda: _token_state(host))}
        return {**fields, "bitfusion_authorised": _answer(host)}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, declared = host.machine, host.document["bitfusion"]
        if "bitfusion_client" in wrong:
            _install(machine, declared)
        if "bitfusion_token" in wrong:
            for name, text in _token(host).items():
                machine.put(FILES[name], text, mode=0o600)
        if "bitfusion_authorised" in wrong:
            host.forget()
            answer = _answer(host)
            if answer != AUTHORISED:
                raise StepError(
                    f"no Bitfusion server offers GPUs to this client: {answer}",
                    "enable the machine in vCenter (Bitfusion, Enable as client), "
                    "or set bitfusion_client.authorisation: token",
                )

    def facts(self, host: Host) -> Dict[str, Any]:
        return {"bitfusion": {"version": _version(host.machine), "servers_answer": _answer(host)}}

    def undo(self, host: Host, before: Before) -> None:
        if source_of(host.machine, "bitfusion") and delivered(host.machine, "bitfusion"):
            for path in FILES.values():
                host.machine.remove(path)
            host.machine.remove(source_of(host.machine, "bitfusion"))


def _version(machine: Machine) -> str:
    for name, version in installed_versions(machine).items():
        if name.startswith(PACKAGE):
            return version
    return ""


def _install(machine: Machine, declared: Dict[str, Any]) -> None:
    there = _version(machine)
    if there:
        raise StepError(
            f"Bitfusion's client {there} is installed, but the lab file sets {declared['version']}",
            "remove it yourself if you agree; client and servers must have the same release",
        )
    install_file(machine, declared["package"], keep=True)


def _answer(host: Host) -> str:
    """Whether a server lets this client see its GPUs."""
    done = host.remembered(
        "bitfusion", lambda: host.machine.run("bitfusion", "list_gpus", timeout_s=ANSWER_S)
    )
    if not done.code:
        return AUTHORISED
    lines = (done.err or done.out).strip().splitlines()
    return lines[-1][:150] if lines else f"bitfusion exited with {done.code}"


def _token_state(host: Host) -> str:
    if not delivered(host.machine, "bitfusion"):
        return DELIVERED if all(host.machine.exists(path) for path in FILES.values()) else MISSING
    files = {FILES[name]: text for name, text in _token(host).items()}
    return ", ".join(host.machine.faults(files)) or DELIVERED


def _token(host: Host) -> Dict[str, str]:
    files: Dict[str, str] = host.remembered("bitfusion token", lambda: _unpacked(host.machine))
    return files


def _unpacked(machine: Machine) -> Dict[str, str]:
    try:
        archive = base64.b64decode(delivered(machine, "bitfusion"), validate=False)
    except ValueError:
        archive = b""
    if not archive:
        raise StepError(
            f"Bitfusion's token was {MISSING}, or is not base64",
            "base64 token.tar | pulumi config set --secret rocelab:bitfusionToken, then pulumi up",
        )
    try:
        return _texts_of(archive)
    except tarfile.TarError as error:
        raise StepError(
            f"Bitfusion's token is damaged: {error}", "set the secret rocelab:bitfusionToken again"
        ) from None


def _texts_of(archive: bytes) -> Dict[str, str]:
    texts: Dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = [member.name for member in tar.getmembers() if member.isfile()]
        for name in FILES:
            places = [member for member in members if os.path.basename(member) == name]
            content = tar.extractfile(places[0]) if len(places) == 1 else None
            if content is None:
                raise StepError(
                    f"Bitfusion's token holds {', '.join(members) or 'nothing'}, not "
                    f"{', '.join(FILES)}",
                    "download it again in vCenter's plug-in, tab Tokens",
                )
            texts[name] = content.read().decode(errors="replace")
    return texts
