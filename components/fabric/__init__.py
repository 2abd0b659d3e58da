"""The vSphere side of a lab.

The files here place objects (components, dynamic resources, hooks of the engine) or are commands. What those do is in
the folders: `vcenter` talks to one, `preflight` looks before anything is changed, `vms` reads and changes machines.
"""
