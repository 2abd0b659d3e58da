"""SSH as every layer uses it.

One way to connect, one way to run something, and where the keys come from.
"""
