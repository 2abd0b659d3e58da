"""The hosts layer: one program that runs on each host, one command that starts it, one Fleet that looks after all."""
