"""The operating system under a node: what of it the lab asks for. Everything is left alone unless it is asked for."""

import base64
import binascii
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from stacks.base import Section

PackageName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9+._:-]*[a-zA-Z0-9+])?$", max_length=100)]
"""A package without a version: a pinned one belongs into the mirror, where it also stays available.

No hyphen at its end: apt would remove the package.
"""

KernelArgument = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.,:/@+%=-]*$", max_length=200)]
"""One word of the kernel's command line. Nothing in it can mean something to the shell that reads GRUB's files."""

TimeServer = Annotated[str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9.:-]*[a-zA-Z0-9])?$", max_length=253)]
"""Name or address of an NTP server."""

AccountName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]*$", max_length=31)]
"""A login as useradd takes it; also a file name in sudoers.d, where a dot would hide it."""

KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


def _one_public_key(text: str) -> str:
    if "PRIVATE KEY" in text:
        raise ValueError("a private key: put the content of the .pub file here, and make a new pair, this one is known")
    words = text.split()
    if len(words) < 2 or words[0] not in KEY_TYPES or "\n" in text:
        raise ValueError(f"no public key: one line that begins with one of {', '.join(KEY_TYPES)}, without options")
    try:
        known = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        raise ValueError(f"the {words[0]} key is cut or altered: copy the .pub file's line whole") from None
    if not known[4:].startswith(words[0].encode()):
        raise ValueError(f"the key says that it is no {words[0]}: copy the .pub file's line whole")
    if re.search(r"[^\x20-\x7e]", text):
        raise ValueError("the key's comment holds characters that are not plain ASCII: leave the comment out")
    return " ".join(words)


PublicKey = Annotated[str, Field(max_length=1500), AfterValidator(_one_public_key)]


class Packages(Section):
    """Packages that every node has, by family of distributions. They are installed, and never removed again."""

    debian: tuple[PackageName, ...] = ()
    """Debian and Ubuntu."""
    rhel: tuple[PackageName, ...] = ()
    """Red Hat Enterprise Linux, CentOS Stream, Rocky, Alma, Oracle."""


class Clock(Section):
    """A clock that is right: logs, certificates and leases of many hosts cannot be compared otherwise."""

    daemon: Literal["keep", "chrony"] = "keep"
    """keep: what sets the clock is left alone; only a clock that is not synchronized is a fault. chrony: installed."""
    servers: tuple[TimeServer, ...] = Field(default=(), max_length=8)
    """Servers that chrony prefers to those of the distribution. None: the distribution's only."""

    @model_validator(mode="after")
    def _servers_need_a_daemon_of_ours(self) -> "Clock":
        if self.servers and self.daemon == "keep":
            raise ValueError("servers are given and daemon is keep, which changes nothing: set daemon: chrony")
        return self


class KernelArguments(Section):
    """Words on the kernel's command line. They are added and never taken away: others may rely on them by then."""

    iommu: Literal["keep", "auto", "intel", "amd"] = "keep"
    """The IOMMU in pass-through mode. auto: intel_iommu=on iommu=pt on Intel, iommu=pt on AMD, by the host's CPU."""
    pci_realloc: bool = False
    """pci=realloc: for a BIOS that leaves too little address space for the VFs."""
    extra: tuple[KernelArgument, ...] = Field(default=(), max_length=20)
    """Further words, such as `pcie_acs_override=off` or `processor.max_cstate=1`."""

    @model_validator(mode="after")
    def _extra_says_nothing_else_says(self) -> "KernelArguments":
        for word in self.extra:
            if word.partition("=")[0] in ("intel_iommu", "amd_iommu", "iommu") and self.iommu != "keep":
                raise ValueError(f"extra has {word} and iommu is {self.iommu}: say it once")
            if word == "pci=realloc" and self.pci_realloc:
                raise ValueError("extra has pci=realloc and pci_realloc is true: say it once")
        return self


class ManagementUser(Section):
    """An account for people who look after the nodes; they log in with keys only."""

    name: AccountName
    keys: tuple[PublicKey, ...] = Field(min_length=1, max_length=20)
    """Public keys, each as its .pub file has it. Keys that are there already stay."""
    uid: int | None = Field(default=None, ge=1000, le=60_000)
    """The same on every node where files are shared. None: the host's next free one."""
    sudo: bool = False
    """Everything as root without a password."""

    @model_validator(mode="after")
    def _never_root(self) -> "ManagementUser":
        if self.name == "root":
            raise ValueError("root is no account for people: give each a name of their own with sudo: true")
        return self


class System(Section):
    """What the lab asks of each node's operating system; the default touches nothing."""

    packages: Packages = Packages()
    """Further packages, from the repositories that the node has."""
    clock: Clock | None = None
    """None: the clock is not looked at."""
    kernel_arguments: KernelArguments = Field(default=KernelArguments())
    """Set through GRUB; they hold from the next boot on, and only when hosts.allow_reboot is true."""
    hostname: bool = False
    """Whether each machine is called as its node is."""
    hosts_file: bool = False
    """Whether every node finds every other one by name: a marked block in /etc/hosts, the rest stays as it is."""
    cpu_governor: Literal["keep", "performance"] = "keep"
    """performance: no core saves power; benchmarks jitter otherwise."""
    users: tuple[ManagementUser, ...] = Field(default=(), max_length=50)
    """Accounts beside the one that this program logs in with."""

    @model_validator(mode="after")
    def _each_user_once(self) -> "System":
        names, uids = [user.name for user in self.users], [user.uid for user in self.users if user.uid]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two users are called {twice[0]}: give each a name of its own")
        if same := sorted({uid for uid in uids if uids.count(uid) > 1}):
            raise ValueError(f"two users have uid {same[0]}: their files would be each other's; give each its own")
        return self
