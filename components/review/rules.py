"""Rules of owners for CI: what a preview must not do without a pass, a review or a digest. Pure."""

import re
from collections.abc import Collection, Iterator

from pydantic import JsonValue, ValidationError

from components.finding import Finding
from components.review.effects import STACK, SWITCH, VERBS, Kind, Review
from components.review.preview import Preview
from components.switches.records import SwitchRecord
from stacks.sets import folded

DISTURBING = {Kind.REBOOT, Kind.PODS, Kind.LINK}
PASSES = {"pass", "not rated"}
IMAGE_LINE = re.compile(r"^[ -]*image: (\S+)$", re.MULTILINE)
"""In the YAML of a job that a measurement starts."""
DIGEST = "@sha256:"


def broken_rules(preview: Preview, review: Review, reviewed: Collection[str]) -> list[Finding]:
    """What breaks a rule, in the order of the rules.

    Args:
        preview: what `pulumi preview --json` says.
        review: the same preview's effects.
        reviewed: switches whose switch-wide settings a person has reviewed.
    """
    return [
        *_failures(review),
        *_without_pass(preview, review),
        *_switch_wide(preview, reviewed),
        *_by_tag(preview),
    ]


def _failures(review: Review) -> Iterator[Finding]:
    """A preview that ended early says too little for the other rules."""
    for effect in review.effects:
        if effect.kind is Kind.FAILED:
            yield Finding(
                code="PREVIEW_FAILED", where=effect.name or "preview", evidence=effect.what
            )


def _without_pass(preview: Preview, review: Review) -> Iterator[Finding]:
    """Hosts in use that are disturbed although the last verdict is no pass or is stale.

    Where it is unknown what is in use, a host counts as in use.
    """
    effects = [effect for effect in review.effects if effect.kind in DISTURBING]
    hosts = {effect.name for effect in effects} - review.idle_hosts
    lack = _lack_of_pass(preview)
    if hosts and lack:
        yield Finding(
            code="NO_FRESH_PASS",
            where=", ".join(folded(hosts)),
            evidence=f"links, pods or the host are interrupted, and {lack}",
            hint="measure first (ROCELAB_VALIDATE=again pulumi up), or drain these hosts",
        )


def _lack_of_pass(preview: Preview) -> str:
    """Why the stack's last verdict is no fresh pass; empty if it is one."""
    outputs: dict[str, JsonValue] = {}
    for step in preview.steps:
        if step.type == STACK and step.old:
            outputs = step.old.outputs
    verdict = outputs.get("validation")
    if not isinstance(verdict, dict):
        return "the stack has no verdict"
    if verdict.get("stale"):
        return "the last verdict is stale"
    if verdict.get("function") != "pass" or verdict.get("performance") not in PASSES:
        axes = f"function: {verdict.get('function')}, performance: {verdict.get('performance')}"
        return f"the last verdict is {axes}"
    return ""


def _switch_wide(preview: Preview, reviewed: Collection[str]) -> Iterator[Finding]:
    """Changed switches on which rocelab may set what all their ports share."""
    for step in preview.steps:
        state = step.new or step.old
        if step.type != SWITCH or step.op not in VERBS or state is None:
            continue
        try:
            record = SwitchRecord.model_validate(state.inputs.get("record"))
        except ValidationError:
            continue  # the review calls it not read
        name = record.switch.name
        if record.switch.allow_global and name not in reviewed:
            yield Finding(
                code="SWITCH_WIDE",
                where=name,
                evidence="allow_global lets this change set: "
                + ("; ".join(record.global_lines) or "nothing yet"),
                hint=f"review the lines, then add --reviewed {name}",
            )


def _by_tag(preview: Preview) -> Iterator[Finding]:
    """Images that a registry may replace."""
    users: dict[str, set[str]] = {}
    for step in preview.steps:
        if step.new is None:
            continue
        for image in _images(step.new.inputs):
            if DIGEST not in image:
                users.setdefault(image, set()).add(step.name)
    for image, names in sorted(users.items()):
        yield Finding(
            code="IMAGE_BY_TAG",
            where=image,
            evidence=f"has no digest in {', '.join(sorted(names))}",
            hint="rocelab image pin prints the lab's images by digest",
        )


def _images(value: JsonValue) -> Iterator[str]:
    """Images of containers, at any depth of a resource."""
    if isinstance(value, dict):
        image = value.get("image")
        if isinstance(image, str):
            yield image
        for content in value.values():
            yield from _images(content)
    elif isinstance(value, list):
        for content in value:
            yield from _images(content)
    elif isinstance(value, str) and "\n" in value:
        yield from IMAGE_LINE.findall(value)
