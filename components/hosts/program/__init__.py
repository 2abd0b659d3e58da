"""The program that runs on a host: it brings the host to the state in one JSON document, and can
undo that.

Standard library only, Python 3.8 or newer, packed into one file (`components/hosts/pack.py`) and
started with `python3 -I` as root. `main` reads a document on stdin (`boot` and `revert` read files
of their own) and prints one line of JSON; everything else goes to stderr. A failed step and a
needed reboot are data in that line, and the exit code is
0. It never builds a shell command. `steps/` has one file per step.

Why Python: docs/decisions/0002-host-program-in-python.md.
"""
