"""Makes a component for a program in any project.

The engine asks for it with the call `Construct`. Here the SDK's own server for components answers,
in an event loop per call. Only such a program pays for its imports.
"""

from typing import Any

import pulumi
from pulumi.provider import ConstructResult, Provider
from pulumi.provider.server import ProviderServicer
from pulumi.runtime.settings import SETTINGS

from components.provider.base import ProviderConfig
from components.provider.resources import VERSION, component_class
from components.provider.schema import SECRETS
from stacks.base import LabError


class Components(Provider):
    """The package's components, with the configuration of this provider."""

    def __init__(self, config: ProviderConfig) -> None:
        super().__init__(VERSION)
        self._config = config

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        pulumi.runtime.set_all_config(
            self._config.of_stack(), [f"rocelab:{key}" for key in SECRETS]
        )
        component = component_class(resource_type)(name, options)
        return ConstructResult(component.urn, component.outputs)


async def construct(request: Any, config: ProviderConfig, engine: str) -> Any:
    """Answers `Construct`.

    Raises:
        LabError: naming what is wrong with the lab.
    """
    servicer = ProviderServicer(Components(config), [], engine)
    try:
        return await servicer._construct(request, None)
    except pulumi.RunError as error:
        raise LabError(str(error)) from None
    finally:
        if SETTINGS.callbacks:  # the server of the hooks, which nothing public ends
            await SETTINGS.callbacks._server.stop(0)
