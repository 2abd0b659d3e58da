"""kubeadm, kubelet and kubectl in the lab's version, and held: a package manager upgrades in the
wrong order.
"""

import base64
import hashlib
import re
from typing import Dict, Iterator, List, Sequence, Set, Tuple

from ..distribution import family, install, installed_versions
from ..host import Document, Host
from ..machine import Machine, StepError, first_match
from ..membership import KUBELET_CONFIG
from ..software import fetch
from ..step import Before, Fields, Step, section_of

FIELD = "kubernetes_packages"
NAMES = ("kubeadm", "kubectl", "kubelet")
NEEDED = ("kubeadm", "kubelet")
"""The programs that rocelab runs; kubectl is for you."""
KEY_FILES = {
    "debian": "/etc/apt/keyrings/rocelab-kubernetes.asc",
    "rhel": "/etc/pki/rpm-gpg/RPM-GPG-KEY-rocelab-kubernetes",
}
LIST_FILES = {
    "debian": "/etc/apt/sources.list.d/rocelab-kubernetes.list",
    "rhel": "/etc/yum.repos.d/rocelab-kubernetes.repo",
}
APT_SOURCES = "/etc/apt/sources.list"
KEY_PLACES = {"debian": "Release.key", "rhel": "repodata/repomd.xml.key"}


class KubernetesPackages(Step):
    """Installed from the lab's repository, or only checked when the lab file has `preinstalled`."""

    name = FIELD
    order = 730
    effects = {FIELD: "none"}
    repairs = {FIELD: "service"}
    version_setting = "cluster.bootstrap.version"
    upgrade = (
        "control planes first: kubectl drain it, kubeadm upgrade apply (node on the others), "
        "install and hold kubelet and kubectl, kubectl uncordon it"
    )

    def target(self, document: Document) -> Fields:
        declared = document.get("kubernetes")
        if not declared:
            return {}
        return {
            FIELD: (
                f"{declared['version']} held" if declared.get("repository") else declared["version"]
            )
        }

    def files_to_write(self, host: Host) -> List[str]:
        kind = family(host.machine)
        return [LIST_FILES[kind], KEY_FILES[kind]]

    def versions(self, document: Document) -> Dict[str, str]:
        declared = section_of(document, "kubernetes")
        return {FIELD: declared["version"]} if declared.get("repository") else {}

    def observed(self, host: Host) -> Fields:
        declared = host.document["kubernetes"]
        if not declared.get("repository"):
            return {FIELD: _summary(_programs(host.machine), NEEDED)}
        installed = _summary(_packages(host), NAMES)
        return {
            FIELD: (
                f"{installed} held"
                if installed == declared["version"] and _held(host)
                else installed
            )
        }

    def apply(self, host: Host, wrong: Set[str]) -> None:
        declared, machine = host.document["kubernetes"], host.machine
        repository = declared.get("repository")
        if repository:
            installed = _summary(_packages(host), NAMES)
        else:
            installed = _summary(_programs(machine), NEEDED)
        if installed != declared["version"] and machine.exists(KUBELET_CONFIG):
            raise StepError(
                f"this cluster node has {installed}, but cluster.bootstrap.version is "
                f"{declared['version']}",
                f"upgrade it by hand (kubeadm upgrade), or set the version back to {installed}",
            )
        if not repository:
            raise StepError(
                f"the lab file says that Kubernetes {declared['version']} is preinstalled, but "
                f"this host has {installed}",
                "install kubeadm and kubelet of that version, or set cluster.bootstrap.packages "
                "(url, key_sha256)",
            )
        kind = family(machine)
        _fetch_key(machine, kind, repository)
        if installed != declared["version"]:
            _put_list(machine, kind, repository, held=False)
            _hold(host, kind, held=False)
            form = "{}={}-*" if kind == "debian" else "{}-{}"
            install(machine, [form.format(name, declared["version"]) for name in NAMES])
            host.forget()
        _put_list(machine, kind, repository, held=True)
        _hold(host, kind, held=True)

    def before(self, host: Host) -> Before:
        return {"held": _held(host)}

    def undo(self, host: Host, before: Before) -> None:
        removed = []
        for path in (*LIST_FILES.values(), *KEY_FILES.values()):
            if host.machine.remove(path):
                removed.append(path)
        if removed and not before["held"]:
            _hold(host, family(host.machine), held=False)


def _programs(machine: Machine) -> Dict[str, str]:
    kubeadm = machine.run("kubeadm", "version", "-o", "short")
    kubelet = machine.run("kubelet", "--version")
    return {"kubeadm": _version(kubeadm.out), "kubelet": _version(kubelet.out)}


def _packages(host: Host) -> Dict[str, str]:
    installed = installed_versions(host.machine, NAMES)
    return {name: _version(version) for name, version in installed.items()}


def _version(text: str) -> str:
    """`1.36.3` of `v1.36.3`, `Kubernetes v1.36.3` or `1.36.3-1.1`."""
    words = text.split()
    return words[-1].lstrip("v").split("-")[0] if words else ""


def _summary(packages: Dict[str, str], names: Sequence[str]) -> str:
    """One version when all have it, else what each has."""
    versions = {name: packages.get(name) or "none" for name in names}
    if len(set(versions.values())) == 1:
        return versions[names[0]]
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _held(host: Host) -> bool:
    kind, machine = family(host.machine), host.machine
    if kind == "debian":
        return set(NAMES) <= set(machine.run("apt-mark", "showhold", *NAMES).out.split())
    return "excludepkgs=" in machine.read(LIST_FILES[kind])


def _hold(host: Host, kind: str, held: bool) -> None:
    """On the RHEL family the repository's own file does it, so that no plugin of dnf is needed."""
    there = sorted(_packages(host)) if kind == "debian" else []
    if there:  # apt-mark fails for a package that is in no list
        mark = "hold" if held else "unhold"
        host.machine.must("apt-mark", mark, *there)


def _put_list(machine: Machine, kind: str, repository: Dict[str, str], held: bool) -> None:
    """Adds the repository, unless apt has it: with two keys for one repository apt reads no
    source at all.
    """
    entries = _apt_entries(machine) if kind == "debian" else []
    others = [(path, entry) for path, entry in entries if _has_url(entry, repository["url"])]
    if not others:
        machine.put(LIST_FILES[kind], _list_text(kind, repository, held))
        return
    machine.remove(LIST_FILES[kind])
    pinned = machine.content(KEY_FILES[kind])
    for path, entry in others:
        signed_by = first_match(r"(?i)signed-by\s*[:=]\s*([^\s\]]+)", entry)
        if machine.content(signed_by) not in (pinned, _dearmored(pinned)):
            raise StepError(
                f"{path} has {repository['url']} signed by {signed_by or 'no named key'}, not by "
                "the key of cluster.bootstrap.packages.key_sha256",
                f"remove that entry from {path}, and rocelab adds its own",
            )


def _apt_entries(machine: Machine) -> Iterator[Tuple[str, str]]:
    """The entries of apt's sources that are not rocelab's, each with its file: a line, or a
    paragraph of deb822.
    """
    for path in [
        APT_SOURCES,
        *(f"{APT_SOURCES}.d/{name}" for name in machine.names(APT_SOURCES + ".d")),
    ]:
        text = re.sub(r"^[ \t]*#.*\n?", "", machine.read(path), flags=re.MULTILINE)
        entries = []
        if path.endswith(".list") and path != LIST_FILES["debian"]:
            entries = [line.partition("#")[0] for line in text.splitlines()]
        elif path.endswith(".sources"):
            paragraphs = re.split(r"\n\s*\n", text)
            entries = []
            for paragraph in paragraphs:
                if not re.search(r"(?im)^enabled:\s*(no|false|0|off)\b", paragraph):
                    entries.append(paragraph)
        yield from ((path, entry) for entry in entries)


def _has_url(entry: str, url: str) -> bool:
    return any(word.rstrip("/") == url.rstrip("/") for word in entry.split())


def _dearmored(key: bytes) -> bytes:
    """The key as `gpg --dearmor` writes it, which the instructions of Kubernetes use."""
    body = re.search(rb"\n\n([\w+/=\s]+?)(?:\n=[\w+/]{4})?\n-----END", key)
    return base64.b64decode(body[1]) if body else key


def _list_text(kind: str, repository: Dict[str, str], held: bool) -> str:
    if kind == "debian":
        return f"deb [signed-by={KEY_FILES[kind]}] {repository['url']} /\n"
    lines = [
        "[rocelab-kubernetes]",
        "name=Kubernetes of this lab",
        f"baseurl={repository['url']}",
        "enabled=1",
        "gpgcheck=1",
        f"gpgkey=file://{KEY_FILES[kind]}",
        *([f"excludepkgs={' '.join(NAMES)}"] if held else []),
    ]
    return "\n".join(lines) + "\n"


def _fetch_key(machine: Machine, kind: str, repository: Dict[str, str]) -> None:
    """Installs the repository's signing key, which verifies all that is installed from it."""
    if hashlib.sha256(machine.content(KEY_FILES[kind])).hexdigest() == repository["key_sha256"]:
        return
    place = fetch(
        machine, {"url": repository["url"] + KEY_PLACES[kind], "sha256": repository["key_sha256"]}
    )
    machine.put(KEY_FILES[kind], machine.content(place))
    machine.remove(place)
