"""What programs of these tests find in the vCenter."""

from typing import Any

CANARY = "canary-of-the-vcenter"
LOOKUPS: dict[str, dict[str, Any]] = {
    "vsphere:index/getDatacenter:getDatacenter": {"id": "datacenter-1"},
    "vsphere:index/getHost:getHost": {"id": "host-1", "resourcePoolId": "resgroup-of-host"},
    "vsphere:index/getComputeCluster:getComputeCluster": {"id": "domain-1", "resourcePoolId": "resgroup-1"},
    "vsphere:index/getNetwork:getNetwork": {"id": "network-1"},
    "vsphere:index/getDatastore:getDatastore": {"id": "datastore-1"},
    "vsphere:index/getVirtualMachine:getVirtualMachine": {"id": "4216-template"},
}
