"""Versions that this host runs because we installed them, and that nothing raises by itself.

The Fleet refuses a changed version in the preview. A run without a preview starts the hosts' commands before the
Fleet is asked, so that each host refuses it too.
"""

import json
from typing import Sequence

from .host import Document, Host
from .machine import StepError
from .places import DOCUMENT_FILE
from .step import Step


def refuse_upgrade(host: Host, steps: Sequence[Step]) -> None:
    """Asked before anything changes.

    Raises:
        StepError: when the document wants another version of what was installed here, and this host has the old one.
    """
    before = _last_document(host)
    for step in steps:
        old, new = step.installs(before), step.installs(host.document)
        field = step.name
        if old is None or new is None or old == new or step.observed(host)[field] == step.wanted(host.document)[field]:
            continue  # what somebody upgraded by hand is as wanted
        raise StepError(
            f"{field} {old} => {new}: this host runs {old}, and nothing rolls an upgrade over hosts at work yet",
            f"drain it, install {new} by hand, reboot, uncordon it, then pulumi up --refresh --run-program; "
            f"or set the version back to {old}",
        )


def _last_document(host: Host) -> Document:
    """What was last confirmed here; nothing on a host that is new or was undone."""
    try:
        document = json.loads(host.machine.read(DOCUMENT_FILE) or "{}")
    except ValueError:
        return {}  # damaged: the run that follows writes it anew, and the Fleet refuses by its own records
    return dict(document) if isinstance(document, dict) else {}
