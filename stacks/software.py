"""Vendor software on hosts: its version, its packages, and where they come from."""

from typing import Annotated

from pydantic import Field, model_validator

from stacks.base import Section

Url = Annotated[str, Field(pattern=r"^(https?|file)://[^\s]+$", max_length=500)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+~:-]*$", max_length=60)]
PackageName = Annotated[
    str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9+._:-]*[a-zA-Z0-9+])?$", max_length=100)
]
"""A package without a version: a pinned one belongs into the mirror. No hyphen at its end: apt
would remove it."""


class Download(Section):
    """One vendor file. The host itself downloads it, and uses it only if the checksum matches."""

    url: Url
    """https, a mirror of yours (http is enough, since the checksum protects the file), or file://
    on the host."""
    sha256: Sha256
    """sha256 of the file, hexadecimal, from the vendor's download page."""


class Packaged(Section):
    """Software that rocelab installs from packages only if the lab file requests it."""

    version: Version | None = None
    """The version that the software itself reports. None: any."""
    packages: tuple[PackageName, ...] = ()
    """Packages to install, besides what they depend on."""
    repository: Download | None = None
    """The vendor's package (.deb or .rpm) that sets up its repository. None: the hosts have the
    repository."""
    replace: bool = False
    """Whether another working version may be removed first. Otherwise rocelab only lists what it
    would remove."""


class Installed(Packaged):
    """Software with a `source`: keep uses what is installed, packaged installs, operator leaves it
    to the cluster.
    """

    source: str = "keep"

    @model_validator(mode="after")
    def _only_packaged_software_has_packages(self) -> "Installed":
        if self.source == "packaged" and not self.is_brought():
            raise ValueError(
                "source is packaged, but packages is empty; list the packages that provide it"
            )
        if self.source != "packaged" and (self.packages or self.repository or self.replace):
            raise ValueError(
                "packages, repository and replace are for source packaged, but source is "
                f"{self.source}; remove them, or set source: packaged"
            )
        return self

    def is_brought(self) -> bool:
        """Whether anything is listed that provides the software."""
        return bool(self.packages)
