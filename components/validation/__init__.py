"""The proof that the lab works: what is measured, how it is read, and how it is judged.

Each folder imports only those before it: training, planning, judging, memory, cluster, benchmarks, running.
"""

from collections.abc import Callable

Say = Callable[[str], None]
"""Receives progress, one line at a time."""
