"""Runs the SDK's plugin for dynamic providers, and ends it when its engine is gone.

An operation under way ends too: its result would not be recorded, and it would interfere with the next run.
"""

import gc
import os
import runpy
import sys
import threading
import time
from pathlib import Path

PARENT_POLL_S = 1.0


def watch(parent: int) -> None:
    """Ends the process once its parent has changed."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def main() -> None:
    """Arguments: the path that the engine started, then the engine's own."""
    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()
    # As with `python -m`, look for modules of providers in the program's folder first, not in this file's.
    sys.path[0] = str(Path.cwd())
    sys.argv = sys.argv[1:]
    gc.set_threshold(100_000)  # as in program.py
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
