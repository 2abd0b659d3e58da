"""The proof that the lab works: what is measured, how it is read, and how it is judged.

A benchmark is a folder or a file of `benchmarks/`: what it plans, runs, reads and judges. The rest
is what all of them share: the record of a run, its store and history, jobs in the cluster, the
search for a fault, and one verdict.
"""

from collections.abc import Callable

Say = Callable[[str], None]
"""Receives progress, one line at a time."""
