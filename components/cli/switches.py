"""`rocelab switches`."""

from pathlib import Path

import click

from components.cli.options import FOLDER, json_option, show, stack_options, verb
from components.stack import Stack
from components.switches.text import chosen_switches, switch_text
from stacks.files import write_file


@verb("rocelab switches --stack dgx --switch sw1", "rocelab switches --stack dgx --folder texts")
@stack_options
@click.option("--switch", metavar="SWITCH", help="Only this switch.")
@click.option("--folder", type=FOLDER, help="Write SWITCH.txt files there.")
@json_option
def command(stack: Stack, switch: str | None, folder: Path | None, as_json: bool) -> None:
    """Print the configuration text of the lab's switches. It connects to nothing."""
    lab = stack.lab()
    texts = {}
    for chosen in chosen_switches(lab, switch):
        texts[chosen.name] = switch_text(lab, chosen)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            file = folder / f"{name}.txt"
            write_file(file, text)
            click.echo(file, err=as_json)
    text = "".join(texts.values()) if folder is None else ""
    show(text, texts, as_json=as_json)
