"""SSH as every layer uses it: one way to connect, one way to run something, and where the keys come
from.
"""
