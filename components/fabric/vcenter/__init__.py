"""How one talks to a vCenter: the session, reads and changes of it, and what is said when it
refuses.
"""
