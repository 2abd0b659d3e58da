"""Carries a plan out on hosts and cluster; what it finds is data."""
