"""The base of dynamic providers that need the stack's configuration. Does not import Pulumi."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from components.ssh.credentials import Setting
from stacks.base import LabError


class Config(Protocol):
    """The stack's configuration as the engine hands it to a provider."""

    def get(self, key: str) -> str | None:
        """Value of a key, secrets included; None when there is none."""


class Request(Protocol):
    """What the engine configures a provider with."""

    @property
    def config(self) -> Config:
        """The stack's configuration."""


class Configured:
    """Gets credentials from the stack's configuration only; none of them enters a property or the state.

    List it before the SDK's `ResourceProvider` among the bases.
    """

    serialize_as_secret_always = False  # no secret in it: credentials come through `configure`

    def configure(self, req: Request) -> None:
        """Keeps the stack's configuration, secrets included."""
        self._setting: Setting = req.config.get


@contextmanager
def plainly() -> Iterator[None]:
    """Around a provider's method: hides the traceback that grpc would print for errors that a user can act on."""
    try:
        yield
    except LabError:
        logging.getLogger("grpc").setLevel(logging.CRITICAL)
        raise
