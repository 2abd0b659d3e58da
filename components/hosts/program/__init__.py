"""The program that runs on a host: it makes the host what one JSON document says, and puts back what was there.

Standard library only, Python 3.8 or newer, packed into one file (`components/hosts/pack.py`) and started with
`python3 -I` as root. `main` reads a document on stdin (`boot` and `revert` read files of their own) and prints one line
of JSON; all else goes to stderr. A step that fails and a reboot that is needed are data in that line, and the exit code
is 0. It never builds a line for a shell. `steps/__init__.py` lists what is done, in its order.

Why Python: docs/decisions/0002-host-program-in-python.md.
"""
