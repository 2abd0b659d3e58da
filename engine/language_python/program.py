"""Runs the official program runner; the exit code tells the host whether an error has been shown already.

The SDK sends four debug messages per resource and waits for each. With 256 hosts that takes a second, and they are
visible only with `pulumi --debug`. They are dropped unless PULUMI_PYTHON_DEBUG is set. So is the call stack of each
resource, which nobody reads: it takes a tenth of a program's time and a seventh of the state.

The runner exits with 1 both after a `pulumi.RunError`, which it logs, and after a silent `sys.exit(1)`. Without this
wrapper, the engine would add "exited with non-zero exit code" to a message that is complete.
"""

import gc
import os
import runpy
import sys

OBJECTS_PER_COLLECTION = 100_000
"""What imports make stays. Python's default of 700 looks at it again and again, for a tenth of a preview's time."""
gc.set_threshold(OBJECTS_PER_COLLECTION)

import pulumi  # noqa: E402, TID251  (part of the engine, not of the program)
from pulumi.runtime import resource as registration  # noqa: E402, TID251
from pulumi.runtime.proto import source_pb2  # noqa: E402, TID251

SHOWN = 32
"""Exit code of a program whose error has been shown already."""

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
    """Arguments: the runner, then its arguments."""
    del sys.argv[0]
    pulumi.log.error = _remembering
    if not os.environ.get("PULUMI_PYTHON_DEBUG"):
        pulumi.log.debug = _unsaid
        registration._get_stack_trace = source_pb2.StackTrace
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        sys.exit(SHOWN if end.code == 1 and _errors else end.code)


if __name__ == "__main__":
    main()
