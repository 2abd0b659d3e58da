"""Talks to a vCenter: the session, reads, changes, and the errors when it refuses."""
