"""Runs the official program runner, and tells the host by the exit code when an error has been shown already.

The SDK sends four debug messages for each resource, one by one, and waits for each: a second at 256 hosts, of which
nobody sees a word without `pulumi --debug`. They are dropped unless PULUMI_PYTHON_DEBUG is set.

The runner ends with 1 after a `pulumi.RunError`, whose text it has logged, just as after a silent `sys.exit(1)`. The
engine would add "exited with non-zero exit code" to a message that is complete without it.
"""

import os
import runpy
import sys

import pulumi  # noqa: TID251  (part of the engine, not of the program)

SHOWN = 32
"""The runner's own code for: the error has been shown."""

_errors: list[str] = []
_log_error = pulumi.log.error


def _remembering(
    msg: str, resource: pulumi.Resource | None = None, stream_id: int | None = None, ephemeral: bool | None = None
) -> None:
    _errors.append(msg)
    _log_error(msg, resource, stream_id, ephemeral)


def _unsaid(
    msg: str, resource: pulumi.Resource | None = None, stream_id: int | None = None, ephemeral: bool | None = None
) -> None:
    """Drops a message."""


def main() -> None:
    """Arguments: the runner, then the runner's own."""
    del sys.argv[0]
    pulumi.log.error = _remembering
    if not os.environ.get("PULUMI_PYTHON_DEBUG"):
        pulumi.log.debug = _unsaid
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        sys.exit(SHOWN if end.code == 1 and _errors else end.code)


if __name__ == "__main__":
    main()
