"""A stack of this project: one lab, which `components/lab.py` wires, and its outputs."""

import pulumi

from components.lab import wire

for name, output in wire().items():
    pulumi.export(name, output)
