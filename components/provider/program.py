"""The program's side of the provider's resources."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pulumi

from components.provider.base import SECRET, UNKNOWN, Resource
from components.provider.resources import token_of


class Declaration(pulumi.CustomResource):
    """A resource of the provider in a program; its properties are attributes, each an Output.

    ```python
    note = Declaration(File, "note", {"path": "/tmp/note", "text": config.require("text")})
    pulumi.export("sha256", note.sha256)
    ```
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> pulumi.Output[Any]: ...

    def __init__(
        self,
        kind: type[Resource[Any, Any]],
        name: str,
        inputs: Mapping[str, pulumi.Input[Any]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        later = {key: value for key, value in inputs.items() if isinstance(value, pulumi.Output)}
        # plain values are checked here, where a traceback shows the line, Outputs by the provider
        known = kind.inputs.model_validate({**inputs, **dict.fromkeys(later, UNKNOWN)}).plain()
        for key in kind.inputs.marked(SECRET) & known.keys():
            later[key] = pulumi.Output.secret(known[key])
        secrets = sorted(kind.state.marked(SECRET))
        ours = pulumi.ResourceOptions(
            additional_secret_outputs=secrets,
            # where a person asks for a replacement, the engine does not ask the provider
            delete_before_replace=kind.delete_before_replace,
        )
        properties = {**dict.fromkeys(kind.state.model_fields), **known, **later}
        merged = pulumi.ResourceOptions.merge(opts, ours)
        super().__init__(token_of(kind), name, properties, merged)
        for key in kind.state.model_fields:
            setattr(self, key, getattr(self, key).apply(whole_numbers))


def whole_numbers(value: Any) -> Any:
    """The same value with integers: the wire carries every number as a float."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case Mapping():
            return {key: whole_numbers(item) for key, item in value.items()}
        case list():
            return [whole_numbers(item) for item in value]
    return value
