"""How one talks to a vCenter.

The session, reads and changes of it, and what is said when it refuses.
"""
