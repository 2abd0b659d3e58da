"""The driver and the firmware settings of the RoCE NICs. By default both are left as they are."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from stacks.base import Name, Section
from stacks.software import Download, PackageName, Version

Source = Literal["keep", "inbox", "doca_ofed", "mlnx_ofed", "operator"]
VENDOR: tuple[Source, ...] = ("doca_ofed", "mlnx_ofed")
"""Sources that install the vendor's driver."""

EnvironmentName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=60)]

FirmwareVersion = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9A-Za-z]+)+$", max_length=40)]
"""As `ethtool -i` prints it, without the card's PSID behind it: 16.35.4030."""


class NicDriver(Section):
    """Where the NICs' driver comes from. rocelab never updates firmware, and removes a driver only
    with `replace`.
    """

    source: Source = "keep"
    """keep: verifies the loaded driver and leaves it. inbox: the kernel's own. doca_ofed,
    mlnx_ofed: the vendor's, on the host. operator: the cluster's driver container, so the host is
    left alone."""
    version: Version | None = None
    """What `ofed_info -n` prints, such as 25.07-0.9.7. With keep it is only compared."""
    download: Download | None = None
    """doca_ofed: the `doca-host` package that sets up the repository; leave it out if the hosts
    have the repository. mlnx_ofed: the .tgz. There is no default, since you must look up the
    checksum yourself."""
    packages: tuple[PackageName, ...] = ("doca-ofed",)
    """doca_ofed: the profile to install."""
    kernel_modules: Literal["dkms", "add_kernel_support", "prebuilt"] = "dkms"
    """mlnx_ofed: how modules are built for the running kernel."""
    replace: bool = False
    """Whether another driver may be removed first. Without it, the run lists the packages to be
    removed and stops."""
    restart: Literal["reboot", "openibd"] = "reboot"
    """How a new driver is loaded. openibd applies only while nothing uses the old one; otherwise
    the host reboots."""
    container_env: dict[EnvironmentName, str] = Field(default_factory=dict)
    """operator: environment of the driver container, such as UNLOAD_STORAGE_MODULES: "true"."""

    @model_validator(mode="after")
    def _the_source_has_what_it_needs(self) -> "NicDriver":
        if self.source in VENDOR and self.version is None:
            raise ValueError(
                f"source is {self.source}, but version is missing; set it to what `ofed_info -n` "
                "must print"
            )
        if self.source == "mlnx_ofed" and self.download is None:
            raise ValueError(
                "source is mlnx_ofed, but download is missing; set the .tgz's url and sha256"
            )
        if self.source not in VENDOR and self.download is not None:
            raise ValueError(
                f"download is for {' and '.join(VENDOR)}, but source is {self.source}; remove "
                "download"
            )
        if self.source in ("keep", "operator") and self.replace:
            raise ValueError(
                f"source is {self.source}, which replaces nothing; remove replace, or set another "
                "source"
            )
        if self.source != "operator" and self.container_env:
            raise ValueError(
                f"container_env is for source operator, but source is {self.source}; remove "
                "container_env"
            )
        if secret := next(
            (name for name in self.container_env if name.endswith(("TOKEN", "PASSWORD", "KEY"))),
            None,
        ):
            raise ValueError(
                f"container_env has {secret}, but cluster and state store it as plain text; "
                "remove it"
            )
        if self.source in ("inbox", "operator") and self.version is not None:
            raise ValueError(
                f"source is {self.source}, whose version cannot be chosen; remove version"
            )
        return self


class Firmware(Section):
    """Firmware settings of the NICs. Never an update: what is set here are parameters, read at the
    next boot.
    """

    manage: bool = False
    """Whether SRIOV_EN and NUM_OF_VFS are set at all, and LINK_TYPE of PFs with
    `convert_infiniband`."""
    vfs_ceiling: int = Field(default=16, ge=1, le=127)
    """NUM_OF_VFS: how many VFs a PF may be split into without another reboot. More than this is
    left as it is."""
    version: FirmwareVersion | None = None
    """Version that the NICs of bare-metal nodes must run. It is only compared, whatever `manage`
    is: on another version the host stops with both numbers and the manual steps."""
    version_by_rail: dict[Name, FirmwareVersion] = Field(default_factory=dict)
    """Version by rail, for cards of another model; it overrides `version`."""

    def version_of(self, rail: str) -> str | None:
        """The version that the NICs of a rail must run; None: any."""
        return self.version_by_rail.get(rail, self.version)
