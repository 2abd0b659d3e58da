"""The vSphere side of a lab.

The files here declare resources. The folders do the work: `vcenter` has the API client, `preflight`
checks ESXi hosts and switches before anything changes, and `vms` reads and changes VMs.
"""
