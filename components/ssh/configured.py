"""The base of dynamic providers that need the stack's configuration. Does not import Pulumi."""

from typing import Protocol

from components.ssh.credentials import Setting


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
