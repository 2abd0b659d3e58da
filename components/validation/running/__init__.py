"""Carries a whole plan out on hosts and cluster; their faults are data."""
