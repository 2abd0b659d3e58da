"""`rocelab store`."""

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import json_option, say, show, verb
from components.cluster.upstream import Store, operator_definitions, upstream_files
from stacks.base import LabError
from stacks.words import plural


@verb("rocelab store", "ROCELAB_MIRROR=/mnt/mirror rocelab store")
@click.option(
    "--operators",
    is_flag=True,
    help="Also fetch the definitions of the operators' own kinds, as far as they are available. "
    "No lab needs them.",
)
@json_option
def command(operators: bool, as_json: bool) -> Exit:
    """Fetch the pinned upstream files that labs are built from.

    Each file comes from the cache, the folder ROCELAB_MIRROR, its Go module or its release, in this
    order, and must have the pinned SHA-256. Previews and updates read the cache and the mirror
    only.
    """
    store = Store.from_environment()
    routes: dict[str, str] = {}
    errors: list[str] = []
    for file in upstream_files():
        try:
            _, route = store.fetch(file)
        except LabError as error:
            errors.append(str(error))
        else:
            routes[f"{file.name} {file.version} {file.path.rpartition('/')[2]}"] = route
    if operators:
        routes |= operator_definitions(store)
    show(_fetched(routes), {"files": routes, "errors": errors}, as_json=as_json)
    say(*errors)
    return exit_of(findings=False, unreached=bool(errors))


def _fetched(routes: dict[str, str]) -> str:
    """A line per file that was fetched; those that were there before are counted."""
    lines = []
    for name, route in routes.items():
        if route != "cache":
            lines.append(f"{name}: {route}")
    cached = len(routes) - len(lines)
    if cached:
        lines.append(f"{plural(cached, 'upstream file')} in the cache")
    return "\n".join(lines)
