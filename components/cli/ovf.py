"""`rocelab ovf`."""

from dataclasses import asdict
from pathlib import Path

import click

from components.cli.options import FILE, json_option, show, verb
from components.fabric.ovf import Property, read_descriptor


@verb("rocelab ovf bitfusion-server.ova")
@click.argument("file", type=FILE)
@json_option
def command(file: Path, as_json: bool) -> None:
    """List the networks and properties of an OVA, or of its OVF.

    These are the names that bitfusion.keys and bitfusion.properties in a lab file may use.
    """
    descriptor = read_descriptor(file)
    lines = [f"networks: {', '.join(descriptor.networks) or 'none'}"]
    for prop in descriptor.properties.values():
        lines.append(f"{prop.key}: {_notes(prop)}")
    show("\n".join(lines), asdict(descriptor), as_json=as_json)


def _notes(prop: Property) -> str:
    notes = [prop.type, "required" if prop.required else "", "" if prop.configurable else "fixed"]
    return ", ".join(filter(None, notes)) + (f"; {prop.label}" if prop.label else "")
