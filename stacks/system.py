"""The operating system of a node. rocelab leaves everything alone that the lab file does
not set.
"""

import base64
import binascii
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from stacks.base import Section, repeated
from stacks.software import PackageName

KernelArgument = Annotated[
    str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.,:/@+%=-]*$", max_length=200)
]
"""One word of the kernel's command line. Nothing in it can mean something to the shell that reads
GRUB's files."""

TimeServer = Annotated[
    str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9.:-]*[a-zA-Z0-9])?$", max_length=253)
]
"""Name or address of an NTP server."""

AccountName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]*$", max_length=31)]
"""A login as useradd takes it; also a file name in sudoers.d, where a dot would hide it."""

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)


def _one_public_key(text: str) -> str:
    if "PRIVATE KEY" in text:
        raise ValueError(
            "a private key, now exposed; create a new pair, and put the content of its .pub file "
            "here"
        )
    words = text.split()
    if len(words) < 2 or words[0] not in KEY_TYPES or "\n" in text:
        raise ValueError(
            f"not a public key; write one line that begins with {', '.join(KEY_TYPES)}, without "
            "options"
        )
    try:
        known = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        raise ValueError(
            f"the {words[0]} key is truncated or altered; copy the whole line of the .pub file"
        ) from None
    if not known[4:].startswith(words[0].encode()):
        raise ValueError(
            f"the key's content is not of type {words[0]}; copy the whole line of the .pub file"
        )
    if re.search(r"[^\x20-\x7e]", text):
        raise ValueError(
            "the key's comment contains characters that are not plain ASCII; remove the comment"
        )
    return " ".join(words)


PublicKey = Annotated[str, Field(max_length=1500), AfterValidator(_one_public_key)]


class Packages(Section):
    """Packages for every node, by family of distributions. rocelab installs them, and never removes
    them.
    """

    debian: tuple[PackageName, ...] = ()
    """Debian and Ubuntu."""
    rhel: tuple[PackageName, ...] = ()
    """Red Hat Enterprise Linux, CentOS Stream, Rocky, Alma, Oracle."""


class Clock(Section):
    """A synchronized clock, which logs, certificates and leases across hosts depend on."""

    daemon: Literal["keep", "chrony"] = "keep"
    """keep: leaves the time service alone, and only reports an unsynchronized clock as a fault.
    chrony: installs it."""
    servers: tuple[TimeServer, ...] = Field(default=(), max_length=8)
    """Servers that chrony prefers to those of the distribution. Empty: only the distribution's."""

    @model_validator(mode="after")
    def _servers_need_a_daemon_of_ours(self) -> "Clock":
        if self.servers and self.daemon == "keep":
            raise ValueError("servers have no effect with daemon keep; set daemon: chrony")
        return self


class KernelArguments(Section):
    """Words on the kernel's command line. rocelab adds them and never removes them: other programs
    may rely on them.
    """

    iommu: Literal["keep", "auto"] = "keep"
    """auto: iommu=pt, so that an IOMMU that is on does not translate. It is not switched on:
    netdevice VFs need none, and an active IOMMU makes Linux switch on ACS redirection, which slows
    GPUDirect. Devices for VMs (vfio) need `extra: [intel_iommu=on, iommu=pt]` on Intel."""
    pci_realloc: bool = False
    """pci=realloc: for a BIOS that leaves too little address space for the VFs."""
    extra: tuple[KernelArgument, ...] = Field(default=(), max_length=20)
    """Further words, such as `pci=disable_acs_redir=pci:1000:c030` or `processor.max_cstate=1`."""

    @model_validator(mode="after")
    def _extra_says_nothing_else_says(self) -> "KernelArguments":
        for word in self.extra:
            if (
                word.partition("=")[0] in ("intel_iommu", "amd_iommu", "iommu")
                and self.iommu != "keep"
            ):
                raise ValueError(
                    f"extra has {word}, but iommu is {self.iommu}; set only one of them"
                )
            if word == "pci=realloc" and self.pci_realloc:
                raise ValueError(
                    "extra has pci=realloc, but pci_realloc is true; set only one of them"
                )
        return self


class Watch(Section):
    """Counters of rails and GPUs that a timer on each node writes for node_exporter."""

    folder: str = Field(
        default="/var/lib/prometheus/node-exporter",
        pattern=r"^(/[a-zA-Z0-9._-]+)+$",
        max_length=200,
    )
    """node_exporter's `--collector.textfile.directory`; the default is that of Debian."""
    every_s: int = Field(default=10, ge=5, le=300)
    """How often links and counters of RDMA devices are read. Drivers and firmware are asked every
    two minutes."""


class ManagementUser(Section):
    """An account for people who look after the nodes; they log in with keys only."""

    name: AccountName
    keys: tuple[PublicKey, ...] = Field(min_length=1, max_length=20)
    """Public keys, each as in its .pub file. Existing keys stay."""
    uid: int | None = Field(default=None, ge=1000, le=60_000)
    """User id, the same on every node, which shared files need. None: the host's next free one."""
    sudo: bool = False
    """Whether the user may run everything as root without a password."""

    @model_validator(mode="after")
    def _never_root(self) -> "ManagementUser":
        if self.name == "root":
            raise ValueError(
                "root is not an account for people; give each person their own name, with sudo: "
                "true"
            )
        return self


class System(Section):
    """Settings of each node's operating system; the default changes nothing."""

    packages: Packages = Packages()
    """Further packages, from the node's repositories."""
    clock: Clock | None = None
    """None: rocelab does not check the clock."""
    kernel_arguments: KernelArguments = Field(default=KernelArguments())
    """Set through GRUB. They take effect at the next boot, and require hosts.reboot: stage or
    roll."""
    hostname: bool = False
    """Whether to set each machine's hostname to the name of its node."""
    hosts_file: bool = False
    """Whether to add all nodes to /etc/hosts, in a marked block; the rest of the file stays
    unchanged."""
    cpu_governor: Literal["keep", "performance"] = "keep"
    """performance: no core saves power; benchmarks jitter otherwise."""
    watch: Watch | None = None
    """None: no timer. `{}` is enough where node_exporter is installed as Debian does."""
    users: tuple[ManagementUser, ...] = Field(default=(), max_length=50)
    """Accounts besides the one that rocelab logs in with."""

    @model_validator(mode="after")
    def _each_user_once(self) -> "System":
        if twice := repeated(user.name for user in self.users):
            raise ValueError(f"two users have the name {twice[0]}; give each its own")
        if same := repeated(user.uid for user in self.users if user.uid):
            raise ValueError(
                f"two users have uid {same[0]}, so they would own each other's files; give each "
                "its own"
            )
        return self
