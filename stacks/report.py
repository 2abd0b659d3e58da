"""Where what was measured is kept, so that another checkout of the stack reads the same."""

from pathlib import PurePosixPath

from pydantic import Field, field_validator

from stacks.base import Section


class Report(Section):
    """The memory of the validation: raw outputs, whole records and the history of a lab."""

    store: str | None = Field(default=None, min_length=1, max_length=400)
    """Folder, absolute or relative to the checkout; each lab has its own one in it, named after the lab.

    None: `.sim/runs` for virtual labs, `rocelab/runs` in the user's state folder (XDG) for hardware.
    """

    @field_validator("store")
    @classmethod
    def _a_folder_of_this_machine(cls, store: str | None) -> str | None:
        if store is None:
            return None
        if "://" in store:
            raise ValueError(f"{store} is no folder: mount what it stands for, and name the mount point")
        if store.startswith("~"):
            raise ValueError(f"{store} means another folder for each user: write it out")
        if any(ord(letter) < 32 for letter in store):
            raise ValueError("holds a control character")
        if ".." in PurePosixPath(store).parts:
            raise ValueError(f"{store} leaves the checkout by '..': write an absolute path")
        return store
