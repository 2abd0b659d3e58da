"""What is installed on hosts from a vendor: a version, the packages that bring it, and where they come from."""

from typing import Annotated

from pydantic import Field, model_validator

from stacks.base import Section

Url = Annotated[str, Field(pattern=r"^(https?|file)://[^\s]+$", max_length=500)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+~:-]*$", max_length=60)]
PackageName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9+._:-]*[a-zA-Z0-9+])?$", max_length=100)]
"""A package without a version: a pinned one belongs into the mirror. No hyphen at its end: apt would remove it."""


class Download(Section):
    """One file of a vendor: fetched by the host itself, and used only when its checksum is this one."""

    url: Url
    """https, a mirror of the lab (http is enough, since the checksum decides), or file:// on the host."""
    sha256: Sha256
    """Of the whole file, hexadecimal, as the vendor's download page gives it."""


class Packaged(Section):
    """Software that is installed from packages when, and only when, the lab asks for it."""

    version: Version | None = None
    """The version that the software itself reports. Without it any is taken."""
    packages: tuple[PackageName, ...] = ()
    """What is installed. They bring the rest."""
    repository: Download | None = None
    """The vendor's package (.deb or .rpm) that sets up its repository; none: the hosts have the repository."""
    replace: bool = False
    """Whether another version that works may be removed first. Without it, what would go is only listed."""


class Installed(Packaged):
    """Software with a `source`: keep takes what is there, packaged installs, operator leaves it to the cluster."""

    source: str = "keep"

    @model_validator(mode="after")
    def _only_packaged_software_has_packages(self) -> "Installed":
        if self.source == "packaged" and not self.is_brought():
            raise ValueError("source is packaged and no packages are named: name those that bring it")
        if self.source != "packaged" and (self.packages or self.repository or self.replace):
            raise ValueError(
                f"packages, repository and replace are for source packaged, and source is {self.source}: "
                "take them out, or set source: packaged"
            )
        return self

    def is_brought(self) -> bool:
        """Whether something is named that brings the software."""
        return bool(self.packages)
