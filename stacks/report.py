"""Where results are stored, so that another checkout of the stack reads the same ones."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from stacks.base import Section, without_home_folder


class ReportStore(Section):
    """The validation's store: raw outputs, complete records and the history of a lab."""

    store: Annotated[str, AfterValidator(without_home_folder)] | None = Field(
        default=None, min_length=1, max_length=400
    )
    """Folder, absolute or relative to the checkout; each lab has a subfolder with its name.

    None: `.sim/runs` for virtual labs, `rocelab/runs` in the user's state folder (XDG) for
    hardware.
    """

    @field_validator("store")
    @classmethod
    def _a_folder_of_this_machine(cls, store: str | None) -> str | None:
        if store is None:
            return None
        if "://" in store:
            raise ValueError(f"{store} is not a folder; mount the share, and set the mount point")
        if any(ord(letter) < 32 for letter in store):
            raise ValueError("contains a control character; remove it")
        if ".." in PurePosixPath(store).parts:
            raise ValueError(f"{store} leaves the checkout by '..'; use an absolute path")
        return store
