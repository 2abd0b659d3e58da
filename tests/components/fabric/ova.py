"""An OVA of our own that asks for what a Bitfusion server is told; no program is in it, and nothing of VMware's."""

import io
import tarfile
from pathlib import Path
from typing import Any

DISK = "stub-disk1.vmdk"
SECTORS = 2048
"""A disk of one mebibyte, of which only the descriptor is there: nothing ever boots from it."""

ASKED = (
    # key, type, qualifiers, user may set it
    ("hostname", "string", "MinLen(1)", "true"),
    *(
        (f"adapter{number}.{what}", kind, "", "true")
        for number in (1, 2, 3, 4)
        for what, kind in (("ip", "ip"), ("prefix", "uint8"), ("mtu", "uint16"))
    ),
    ("gateway", "ip", "", "true"),
    ("dns", "string", "", "true"),
    ("vcenter.address", "string", "", "true"),
    ("vcenter.user", "string", "", "true"),
    ("vcenter.password", "password", "", "true"),
    ("vcenter.thumbprint", "string", "", "true"),
    ("join", "ip", "", "true"),
    ("licence", "boolean", "MinLen(1)", "true"),
    ("version", "string", "", "false"),
)
KEYS = {
    "hostname": "hostname",
    "address": "adapter{adapter}.ip",
    "prefix_length": "adapter{adapter}.prefix",
    "mtu": "adapter{adapter}.mtu",
    "gateway": "gateway",
    "dns": "dns",
    "vcenter": "vcenter.address",
    "vcenter_user": "vcenter.user",
    "vcenter_password": "vcenter.password",
    "vcenter_thumbprint": "vcenter.thumbprint",
    "first_server": "join",
}


def descriptor(networks: tuple[str, ...] = ("Management",), disk_bytes: int = 512) -> str:
    """Its OVF text."""
    named = "".join(f'<Network ovf:name="{name}"><Description/></Network>' for name in networks)
    asked = "".join(
        f'<Property ovf:key="{key}" ovf:type="{kind}" ovf:qualifiers="{qualifiers}" ovf:userConfigurable="{may}">'
        f"<Label>{key} of the server</Label></Property>"
        for key, kind, qualifiers, may in ASKED
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References><File ovf:href="{DISK}" ovf:id="file1" ovf:size="{disk_bytes}"/></References>
  <DiskSection><Info>disks</Info>
    <Disk ovf:capacity="{SECTORS * 512}" ovf:diskId="disk1" ovf:fileRef="file1"
      ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/></DiskSection>
  <NetworkSection><Info>networks</Info>{named}</NetworkSection>
  <VirtualSystem ovf:id="stub"><Info>a stub</Info><Name>stub</Name>
    <OperatingSystemSection ovf:id="101"><Info>Linux</Info></OperatingSystemSection>
    <VirtualHardwareSection ovf:transport="com.vmware.guestInfo"><Info>hardware</Info>
      <System><vssd:ElementName>hardware</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>stub</vssd:VirtualSystemIdentifier>
        <vssd:VirtualSystemType>vmx-17</vssd:VirtualSystemType></System>
      <Item><rasd:ElementName>cpus</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID>
        <rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>4</rasd:VirtualQuantity></Item>
      <Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:ElementName>memory</rasd:ElementName>
        <rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType>
        <rasd:VirtualQuantity>16384</rasd:VirtualQuantity></Item>
      <Item><rasd:Address>0</rasd:Address><rasd:ElementName>scsi</rasd:ElementName><rasd:InstanceID>3</rasd:InstanceID>
        <rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:ElementName>disk</rasd:ElementName>
        <rasd:HostResource>ovf:/disk/disk1</rasd:HostResource><rasd:InstanceID>4</rasd:InstanceID>
        <rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>7</rasd:AddressOnParent><rasd:AutomaticAllocation>true</rasd:AutomaticAllocation>
        <rasd:Connection>{networks[0]}</rasd:Connection><rasd:ElementName>adapter 1</rasd:ElementName>
        <rasd:InstanceID>5</rasd:InstanceID><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType>
        <rasd:ResourceType>10</rasd:ResourceType></Item>
    </VirtualHardwareSection>
    <ProductSection><Info>what it asks for</Info><Product>stub of a Bitfusion server</Product>{asked}</ProductSection>
  </VirtualSystem>
</Envelope>
"""


def stub_ova(path: Path) -> Path:
    """Writes it."""
    disk = b"KDMV".ljust(512, b"\0")
    with tarfile.open(path, "w") as archive:
        for name, content in (("stub.ovf", descriptor(disk_bytes=len(disk)).encode()), (DISK, disk)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def bitfusion_server(number: int) -> dict[str, Any]:
    return {
        "name": f"bitfusion0{number}",
        "host": f"DC0_C0_H{number - 1}",
        "datastore": "LocalDS_0",
        "cpus": 4,
        "memory_mbytes": 16384,
        "address": f"172.16.7.2{number}/24",
        "gateway": "172.16.7.1",
        "adapters": [{"rail": "pvrdma", "address": f"192.168.0.23{number}/24"}],
    }


def a_bitfusion(ova: Path) -> dict[str, Any]:
    return {
        "ova": str(ova),
        "management_network": "VM Network",
        "dns_servers": ["172.16.7.2", "172.16.7.3"],
        "keys": dict(KEYS),
        "properties": {"licence": "True"},
        "servers": [bitfusion_server(1), bitfusion_server(2)],
    }
