"""Reads a host for an inventory, without a document: each value with its source, or the reason why
it is unknown.
"""
