"""The hosts layer: one program on each host, one command that starts it, and one Fleet that manages
all hosts.
"""
