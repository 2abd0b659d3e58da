"""Carries a plan out on hosts and cluster; their faults are data."""

from collections.abc import Callable

Say = Callable[[str], None]
"""Receives progress, one line at a time."""
