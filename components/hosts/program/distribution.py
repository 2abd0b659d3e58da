"""The distribution family of a host, and how its packages are listed and installed; never
removed.
"""

import re
from typing import Callable, Dict, List, NamedTuple, Sequence

from .machine import MISSING, Done, Machine, StepError

OS_RELEASE = "/etc/os-release"
LOCK_S = 300
"""How long a run waits for another package run: a first boot's own upgrades take minutes."""
INSTALL_S = 900
PACKAGES_S = 1500
"""Waiting for a lock, package lists, and the packages."""
FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "rhel": "rhel",
    "centos": "rhel",
    "fedora": "rhel",
}
"""Family by the names in os-release's ID and ID_LIKE, where Rocky, Alma, Oracle and DGX OS name
it."""
APT = (
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "NEEDRESTART_MODE=l",  # Ubuntu's hook would restart services, container runtimes among them
    "apt-get",
    "-q",
    "-y",
    "-o",
    f"DPkg::Lock::Timeout={LOCK_S}",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
    "--no-install-recommends",
)
INTERRUPTED = "/var/lib/dpkg/updates"
"""dpkg's journal: an interrupted run leaves numbered files here, and apt then refuses to work."""
CONFIGURE = (
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "dpkg",
    "--force-confdef",
    "--force-confold",
    "--configure",
    "-a",
)
DNF = ("dnf", "-q", "-y", "--setopt=install_weak_deps=False")


class Distribution(NamedTuple):
    """What os-release contains."""

    family: str
    """debian or rhel; empty when it is neither."""
    name: str
    """Such as `debian 12`."""
    pretty_name: str
    """Such as `Debian GNU/Linux 12 (bookworm)`; empty when it has none."""


def distribution(machine: Machine) -> Distribution:
    """The distribution. It never fails, because most steps do not depend on it."""
    return distribution_in(machine.read(OS_RELEASE))


def distribution_in(text: str) -> Distribution:
    """What os-release contains."""
    says: Dict[str, str] = dict(re.findall(r"^(\w+)=[\"']?(.*?)[\"']?$", text, re.MULTILINE))
    words = [says.get("ID", ""), *says.get("ID_LIKE", "").split()]
    families = [FAMILIES[word] for word in words if word in FAMILIES]
    return Distribution(
        "".join(families[:1]),
        f"{says.get('ID', 'unknown')} {says.get('VERSION_ID', '')}".strip(),
        says.get("PRETTY_NAME", ""),
    )


def family(machine: Machine) -> str:
    """The family of this host, `debian` or `rhel`."""
    release = distribution(machine)
    if not release.family:
        raise StepError(
            f"this is {release.name}: rocelab manages packages and boot loaders only on Debian, "
            "Ubuntu and RHEL",
            "prepare this host by hand and set packages, clock, kernel_arguments and driver to "
            "keep",
        )
    return release.family


def missing_packages(machine: Machine, names: Sequence[str]) -> List[str]:
    """The packages that are not completely installed, in their order."""
    if not names:
        return []
    if family(machine) == "debian":
        form = "${Package}:${Architecture} ${Package} ${db:Status-Status}\n"
        answer = machine.run("dpkg-query", "-W", "-f", form, *names)
        lines = [line.split() for line in answer.out.splitlines()]
        there = {word for words in lines if words[-1:] == ["installed"] for word in words[:2]}
        return [name for name in names if name not in there]
    answered = machine.run("rpm", "-q", "--whatprovides", *names)
    if answered.code == MISSING:
        raise StepError(
            "rpm is not installed on this host of the RHEL family",
            "this looks like a container; use a full host",
        )
    return [name for name in names if f"no package provides {name}" in answered.out.splitlines()]


def installed_versions(machine: Machine, names: Sequence[str] = ()) -> Dict[str, str]:
    """Version and release of these packages that are completely installed; no names: of all."""
    versions = {}
    if family(machine) == "debian":
        form = "${Package} ${Version} ${db:Status-Status}\n"
        for line in machine.run("dpkg-query", "-W", "-f", form, *names).out.splitlines():
            name, _, version = line.partition(" ")
            if version.endswith(" installed"):
                versions[name] = version.split()[0]
        return versions
    query = "-q" if names else "-qa"
    printed = machine.run("rpm", query, "--qf", "%{NAME} %{VERSION}-%{RELEASE}\n", *names).out
    for words in (line.split() for line in printed.splitlines()):
        if len(words) == 2:  # others say that a package is not installed
            versions[words[0]] = words[1]
    return versions


def install(machine: Machine, names: Sequence[str], may_go: Sequence[str] = ()) -> None:
    """Installs packages from the host's repositories, and refuses to remove others for them.

    Args:
        machine: the host.
        names: packages, none of which is an option.
        may_go: the only packages that may be removed for them, such as the clock daemon that chrony
            replaces.
    """
    if family(machine) == "debian":
        _apt_install(machine, names, may_go)
    else:  # without --allowerasing dnf refuses by itself to remove anything
        _must(machine, "install", [*DNF, "install", *names])


def _apt_install(machine: Machine, names: Sequence[str], may_go: Sequence[str]) -> None:
    if any(name.isdigit() for name in machine.names(INTERRUPTED)):
        _must(machine, "finishing an interrupted dpkg run", CONFIGURE)
    updated = _locked(machine, lambda: machine.run(*APT, "update", timeout_s=LOCK_S))
    planned = machine.run(*APT, "--simulate", "install", "--", *names, timeout_s=120)
    if planned.code and updated.code:
        planned = updated  # the lists are too old, and the failed update says why
    if planned.code:
        raise _refused("install", planned)
    going = [
        name for name in re.findall(r"^Remv (\S+)", planned.out, re.MULTILINE) if name not in may_go
    ]
    if going:
        raise StepError(
            f"apt would remove {', '.join(going)} to install {', '.join(names)}",
            "nothing was changed; remove them yourself if you agree, or remove the package from "
            "the list",
        )
    strict = [] if may_go else ["--no-remove"]
    _must(machine, "install", [*APT, *strict, "install", "--", *names])


def _must(machine: Machine, what: str, words: Sequence[str]) -> None:
    done = _locked(machine, lambda: machine.run(*words, timeout_s=LOCK_S + INSTALL_S))
    if done.code:
        raise _refused(what, done)


def _locked(machine: Machine, run: Callable[[], Done]) -> Done:
    """Retries while another run locks apt's package lists: apt itself does not wait for
    that lock.
    """
    end = machine.now_s() + LOCK_S
    while True:
        done = run()
        if not done.code or "Could not get lock" not in done.err or machine.now_s() > end:
            return done
        machine.pause(5)


def _refused(what: str, done: Done) -> StepError:
    lines = (done.err or done.out).strip().splitlines()
    errors = " / ".join(
        [line for line in lines if line.startswith(("E:", "Error", "No match"))][:3] or lines[-3:]
    )
    return StepError(
        f"packages: {what} failed ({done.code}): {errors}",
        "check the host's repositories and network: apt-get update or dnf makecache shows the "
        "error",
    )
