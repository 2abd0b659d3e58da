"""Reads a host for an inventory, without a document.

Each value with its source, or the reason why it is unknown.
"""
