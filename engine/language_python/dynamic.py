"""Runs the SDK's plugin for dynamic providers, and ends it when the engine that started it is gone.

An operation that is under way ends with it: nobody would record its result, and the next run would meet it at work.
"""

import os
import runpy
import sys
import threading
import time
from pathlib import Path

PARENT_POLL_S = 1.0


def watch(parent: int) -> None:
    """Ends the process once its parent is another one than at its start."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def main() -> None:
    """Arguments: the path that the engine started, then the engine's own."""
    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()
    # As `python -m` would have it: the program's folder comes first, instead of this file's, in which modules of a
    # provider would be looked for.
    sys.path[0] = str(Path.cwd())
    sys.argv = sys.argv[1:]
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
