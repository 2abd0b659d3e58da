"""A healthy cluster, and for each check one way to spoil it in which that check finds something and no other does."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from components.hosts.program.look.gpu import LOST
from components.inventory.model import (
    Attachment,
    ConfigFile,
    Counters,
    CustomObject,
    Host,
    Inventory,
    NearestGpus,
    PendingSetting,
    Pf,
    Route,
    Rule,
    Switch,
    SwitchPort,
    Xid,
)
from components.inventory.reading import known, unknown
from stacks.lab import Lab
from tests.components.inventory.fabricate import (
    HEALTHY,
    address_of,
    changed,
    changed_pf,
    fabricate,
    mac_of,
    management_of,
    pci_of,
    switch_neighbour,
)

HOSTS, RAILS = 5, 2
COUNTERS = (
    *("rx_crc_errors_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy"),
    *("module_high_temp", "module_bus_stuck", "module_bad_shorted"),
    *("rx_oversize_pkts_phy", "rx_out_of_range_len_phy"),
    *("rx_pci_signal_integrity", "tx_pci_signal_integrity"),
    *("local_ack_timeout_err", "roce_slow_restart", "rx_discards_phy", "packet_seq_err"),
    *(f"rx_prio{priority}_pause" for priority in range(8)),
    *("tx_pause_storm_warning_events", "tx_pause_storm_error_events"),
)
"""Of `ethtool -S` and of /sys/class/infiniband/*/ports/*/hw_counters, as the documentation of mlx5 calls them."""
NONE_COUNTED = dict.fromkeys(COUNTERS, 0)
SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Case:
    """What an audit is given."""

    inventory: Inventory
    earlier: Inventory | None = None
    lab: Lab | None = None


Spoil = Callable[[Inventory], Inventory]


def healthy() -> Inventory:
    """`fabricate` with every counter that a check reads."""
    inventory = fabricate(HOSTS, RAILS)
    return both(*(counters(one.name, k) for one in inventory.hosts for k in range(1, RAILS + 1)))(inventory)


def earlier(inventory: Inventory) -> Inventory:
    """The same hosts an hour before, when nothing had been counted yet."""

    def before(one: Pf) -> Pf:
        read = one.counters.map(
            lambda now: Counters(uptime_s=now.uptime_s - SECONDS, values=dict.fromkeys(now.values, 0))
        )
        return replace(one, counters=read, carrier_changes=known(2, "carrier_changes"))

    def host(one: Host) -> Host:
        assert one.read_at
        pfs = one.pfs.map(lambda found: tuple(map(before, found)))
        return replace(one, pfs=pfs, read_at=one.read_at - timedelta(seconds=SECONDS))

    moment = inventory.read_at - timedelta(seconds=SECONDS)
    return replace(inventory, read_at=moment, hosts=tuple(map(host, inventory.hosts)))


def lab(hosts: int = HOSTS, rails: int = RAILS, **sections: Any) -> Lab:
    """The lab file of `fabricate`."""
    content: dict[str, Any] = {
        "name": "pod1",
        "kind": "hardware",
        "access": {"user": "ops", "known_hosts_file": "known_hosts"},
        "rails": [
            {
                "name": f"rail-{k}",
                "host_subnet": f"10.{10 + k}.0.0/16",
                "pod": {
                    "vlan_id": 100 + k,
                    "subnet": f"10.{60 + k}.0.0/16",
                    "first_address": f"10.{60 + k}.0.1",
                    "last_address": f"10.{60 + k}.15.254",
                    "addresses_per_node": 4,
                },
                "resource_prefix": "nvidia.com",
                "resource_name": f"rdma_{k}",
                "network_name": f"rdma{k}",
            }
            for k in range(1, rails + 1)
        ],
        "nodes": [
            {
                "name": f"gpu{n:02}",
                "address": management_of(n),
                "management_interface": "eno1",
                "gpus": rails,
                "pfs": [
                    {
                        "rail": f"rail-{k}",
                        "interface": f"ens{k}np0",
                        "pci": pci_of(k),
                        "address": f"{address_of(k, n)}/16",
                        "vfs": 4,
                        "rdma_device": f"mlx5_{k - 1}",
                    }
                    for k in range(1, rails + 1)
                ],
            }
            for n in range(1, hosts + 1)
        ],
        "cluster": {"pod_subnet": "10.128.0.0/16", "service_subnet": "172.20.0.0/16"},
        "qos": {"mode": "lossless"},
    }
    return Lab.model_validate_json(json.dumps(content | sections))


def on_pf(host: str, rail: int, change: Callable[[Pf], Pf]) -> Spoil:
    return lambda inventory: changed(inventory, host, lambda one: changed_pf(one, pci_of(rail), change))


def pf(host: str = "gpu02", rail: int = 1, **values: object) -> Spoil:
    """A host whose PF on a rail has other values."""
    return on_pf(host, rail, lambda one: replace(one, **{name: known(value, name) for name, value in values.items()}))


def gpu(host: str = "gpu02", **readings: Any) -> Spoil:
    """A host whose first GPU has other readings."""

    def change(one: Host) -> Host:
        return replace(one, gpus=one.gpus.map(lambda gpus: (replace(gpus[0], **readings), *gpus[1:])))

    return lambda inventory: changed(inventory, host, change)


def qos(host: str = "gpu02", rail: int = 1, **values: object) -> Spoil:
    def change(one: Pf) -> Pf:
        readings: Any = {name: known(value, name) for name, value in values.items()}
        return replace(one, qos=replace(one.qos, **readings))

    return on_pf(host, rail, change)


def rdma(host: str = "gpu02", rail: int = 1, **values: object) -> Spoil:
    def change(one: Pf) -> Pf:
        readings: Any = {name: known(value, name) for name, value in values.items()}
        return replace(one, rdma=one.rdma.map(lambda ports: tuple(replace(port, **readings) for port in ports)))

    return on_pf(host, rail, change)


def system(host: str = "gpu02", **values: object) -> Spoil:
    readings: Any = {name: known(value, name) for name, value in values.items()}
    return lambda inventory: changed(inventory, host, lambda one: replace(one, system=replace(one.system, **readings)))


def network(host: str = "gpu02", **values: object) -> Spoil:
    readings: Any = {name: known(value, name) for name, value in values.items()}
    return lambda inventory: changed(
        inventory, host, lambda one: replace(one, network=replace(one.network, **readings))
    )


def counters(host: str = "gpu02", rail: int = 1, **values: int) -> Spoil:
    return on_pf(
        host,
        rail,
        lambda one: replace(
            one, counters=one.counters.map(lambda read: replace(read, values={**NONE_COUNTED, **read.values, **values}))
        ),
    )


def switch_port(leaf: str = "leaf1", port: str = "Ethernet4", **values: object) -> Spoil:
    readings: Any = {name: known(value, name) for name, value in values.items()}

    def port_of(one: SwitchPort) -> SwitchPort:
        return replace(one, **readings) if one.name == port else one

    def change(one: Switch) -> Switch:
        return replace(one, ports=one.ports.map(lambda ports: tuple(map(port_of, ports))))

    return lambda inventory: replace(
        inventory, switches=tuple(change(one) if one.name == leaf else one for one in inventory.switches)
    )


def cluster(**values: object) -> Spoil:
    readings: Any = {name: known(value, name) for name, value in values.items()}

    def change(inventory: Inventory) -> Inventory:
        assert inventory.cluster
        return replace(inventory, cluster=replace(inventory.cluster, **readings))

    return change


def kube_node(host: str = "gpu02", **values: object) -> Spoil:
    def change(inventory: Inventory) -> Inventory:
        assert inventory.cluster
        fields: Any = values
        nodes = inventory.cluster.nodes.map(
            lambda all_nodes: tuple(replace(one, **fields) if one.name == host else one for one in all_nodes)
        )
        return replace(inventory, cluster=replace(inventory.cluster, nodes=nodes))

    return change


def both(*spoils: Spoil) -> Spoil:
    def change(inventory: Inventory) -> Inventory:
        for spoil in spoils:
            inventory = spoil(inventory)
        return inventory

    return change


def crossed(host: str = "gpu02", first: int = 1, second: int = 2) -> Spoil:
    """The cables of two rails of a host are swapped, as host and switches hear it."""

    def change(inventory: Inventory) -> Inventory:
        one = next(each for each in inventory.hosts if each.name == host)
        pfs = {number: one.pf(pci_of(number)) for number in (first, second)}
        lldp: dict[int, Any] = {number: found.lldp.value for number, found in pfs.items() if found}
        return both(pf(host, first, lldp=lldp[second]), pf(host, second, lldp=lldp[first]))(inventory)

    return change


def on_two_leaves(third: int, fourth: int) -> Inventory:
    """Four rails, of which 1 and 3 are on NUMA node 0. The first two have leaves of their own, the others go there."""
    inventory = fabricate(HOSTS, 4)
    spoils = []
    for host in inventory.hosts:
        spoils += [counters(host.name, rail) for rail in range(1, 5)]
        for rail, leaf in ((3, third), (4, fourth)):
            neighbour = replace(switch_neighbour(leaf, 1), port_id=f"Ethernet4{host.name[-2:]}")
            spoils.append(pf(host.name, rail, lldp=(neighbour,)))
    return both(*spoils)(inventory)


def bare(inventory: Inventory) -> Inventory:
    """Without the cluster, whose VFs and addresses would differ too."""
    return replace(inventory, cluster=None)


def files(**values: object) -> tuple[ConfigFile, ...]:
    given: dict[str, Any] = {"path": "/etc/netplan/60-rails.yaml", "manager": "netplan", **values}
    return (ConfigFile(**given),)


def with_address(name: str, rail: int, address: str) -> Spoil:
    """A PF with another address, its GID and its line in the file."""
    ip = address.partition("/")[0]

    def change(one: Pf) -> Pf:
        gids = one.rdma.or_else(())[0].gids.map(lambda found: tuple(replace(gid, ipv4=ip) for gid in found))
        return replace(
            one,
            addresses=known((address,), "ip -j addr"),
            rdma=one.rdma.map(lambda ports: tuple(replace(port, gids=gids) for port in ports)),
            config_files=known(files(mtu_bytes=9000, addresses=(address,)), "/etc/netplan"),
        )

    return on_pf(name, rail, change)


def point_to_point(gateway: str) -> Spoil:
    """Every host has a /31 on rail 1, and gpu02 this gateway."""

    def host(n: int) -> Spoil:
        name, own, other = f"gpu{n:02}", f"172.16.0.{2 * n}", f"172.16.0.{2 * n + 1}"
        via = gateway if n == 2 else other
        route = Route(destination="172.16.0.0/16", gateway=via, interface="ens1np0", source=own)
        rest = tuple(one for one in routes_of(n) if one.interface != "ens1np0")
        return both(with_address(name, 1, f"{own}/31"), network(name, routes=(*rest, route), peers=()))

    return both(*map(host, range(1, HOSTS + 1)))


def shared_subnet(**sysctls: int) -> Spoil:
    """Every host has both rails in one subnet and a table for each; gpu02 has these sysctls."""

    def host(n: int) -> Spoil:
        name, addresses = f"gpu{n:02}", {1: address_of(1, n), 2: f"10.11.64.{n}"}
        rest = tuple(one for one in routes_of(n) if not one.interface.startswith("ens"))
        own = tuple(
            Route(destination="10.11.0.0/16", interface=f"ens{k}np0", source=address, table=str(100 + k))
            for k, address in addresses.items()
        )
        rules = tuple(Rule(priority=100 + k, source=address, table=str(100 + k)) for k, address in addresses.items())
        return both(with_address(name, 2, f"{addresses[2]}/16"), network(name, routes=(*rest, *own), rules=rules))

    spoilt = {f"net.ipv4.conf.{where}.{name}": value for name, value in sysctls.items() for where in ("all", "ens1np0")}
    return both(*map(host, range(1, HOSTS + 1)), network(sysctls=SYSCTLS | spoilt))


def routes_of(n: int) -> tuple[Route, ...]:
    return fabricate(HOSTS, RAILS).hosts[n - 1].network.routes.or_else(())


def state(name: str = "gpu02", sync: str = "Succeeded", **interface: object) -> CustomObject:
    given: Any = {"pciAddress": pci_of(1), "numVfs": 4, **interface}
    return CustomObject(namespace="operator", name=name, spec={"interfaces": [given]}, status={"syncStatus": sync})


def networks(**values: object) -> tuple[Attachment, ...]:
    """The networks of `fabricate`, the first with other values."""
    given: Any = values
    found = fabricate(HOSTS, RAILS).cluster
    assert found
    first, *rest = found.attachments.or_else(())
    return (replace(first, **given), *rest)


MLX5 = fabricate(1, 1).hosts[0].system.drivers.or_else(())[0]
ROUTES = routes_of(2)
SYSCTLS = fabricate(HOSTS, RAILS).hosts[1].network.sysctls.or_else({})

SPOILS: Mapping[str, Spoil] = {
    "link-down": pf(carrier=False),
    "link-speed": pf(speed_mbit_s=200_000, supported_speeds_mbit_s=(100_000, 200_000)),
    "link-below-nic": both(*(pf(f"gpu{n:02}", 1, speed_mbit_s=200_000) for n in range(1, HOSTS + 1))),
    "link-fec": pf(fec="off"),
    "link-flaps": pf(carrier_changes=12),
    "link-errors": counters(rx_symbol_err_phy=500),
    "link-module": counters(module_high_temp=1),
    "pcie-link": pf(pcie_width=8),
    "pcie-settings": pf(max_read_request_bytes=512),
    "pcie-errors": counters(rx_pci_signal_integrity=3),
    "kernel-complaints": system(
        kernel_complaints=(f"mlx5_core {pci_of(1)}: device's health compromised - reached miss count",)
    ),
    "pci-missing": lambda inventory: changed(
        inventory, "gpu02", lambda one: replace(one, gpus=one.gpus.map(lambda gpus: gpus[:-1]))
    ),
    "gpu-count": lambda inventory: replace(
        inventory, hosts=tuple(replace(one, gpus=one.gpus.map(lambda gpus: gpus[:-1])) for one in inventory.hosts)
    ),
    "gpu-lost": gpu(health=unknown(LOST, "nvidia-smi -q -x")),
    "gpu-memory": gpu(health=known(replace(HEALTHY, ecc_uncorrected=2), "nvidia-smi -q -x")),
    "gpu-reset": gpu(health=known(replace(HEALTHY, remap_pending=True), "nvidia-smi -q -x")),
    "gpu-xid": system(xids=(Xid(pci="0000:1a:00", code=31), Xid(pci="0000:1a:00", code=79))),
    "gpu-throttled": gpu(health=known(replace(HEALTHY, throttled=("hw_thermal_slowdown",)), "nvidia-smi -q -x")),
    "gpu-pcie": gpu(health=known(replace(HEALTHY, pcie_width=8), "nvidia-smi -q -x")),
    "gpu-nvlink": gpu(health=known(replace(HEALTHY, fabric_state="In Progress"), "nvidia-smi -q -x")),
    "acs": system(acs_bridges=("0000:0b:10.0",)),
    "iommu": pf(iommu_group_type="DMA"),
    "gpu-far": pf(nearest_gpus=NearestGpus(gpus=())),
    "nic-firmware": pf(firmware="28.39.1002"),
    "nic-model": pf(board_id="MT_0000000001"),
    "firmware-pending": pf(pending_firmware=(PendingSetting(name="NUM_OF_VFS", now="8", next="16"),)),
    "firmware-settings": pf(firmware_settings={"ATS_ENABLED": 0, "PCI_WR_ORDERING": 1}),
    "kernel-version": system(kernel="6.8.0-50-generic"),
    "driver-not-loaded": system(drivers=(replace(MLX5, on_disk_srcversion=known("FFFFFF", "modinfo mlx5_core")),)),
    "reboot-pending": system(reboot_required=True),
    "fabric-manager": system(fabric_manager="565.57.01"),
    "fabric-manager-missing": system(fabric_manager=""),
    "rdma-port": rdma(state="INIT"),
    "rdma-link-layer": rdma(link_layer="InfiniBand"),
    "rocev2-gid": rdma(gids=()),
    "rdma-name": both(
        pf(rail=2, interfaces=("enp91s0",)),
        network(
            routes=tuple(replace(one, interface="enp91s0") if one.interface == "ens2np0" else one for one in ROUTES)
        ),
    ),
    "gpudirect": system(modules=("ib_core", "mlx5_core")),
    "memlock": system(containerd_memlock="8388608"),
    "mtu-pf": pf(mtu_bytes=1500),
    "mtu-vf": on_pf(
        "gpu02",
        1,
        lambda one: replace(
            one, vfs=one.vfs.map(lambda vfs: tuple(replace(vf, mtu_bytes=known(1500, "ip -j addr")) for vf in vfs))
        ),
    ),
    "mtu-pod": cluster(attachments=networks(config={"type": "sriov", "mtu": 1500})),
    "mtu-rdma": rdma(active_mtu_bytes=1024),
    "mtu-switch": switch_port(mtu_bytes=1500),
    "mtu-peer": counters(rx_oversize_pkts_phy=4),
    "not-persistent": pf(config_files=files(mtu_bytes=1500, addresses=(f"{address_of(1, 2)}/16",))),
    "rail-address": both(pf(addresses=(), config_files=()), rdma(gids=())),
    "rail-subnet": both(
        with_address("gpu02", 1, "10.77.0.2/16"),
        network(
            routes=tuple(
                replace(one, destination="10.77.0.0/16") if one.interface == "ens1np0" else one for one in ROUTES
            )
        ),
    ),
    "address-twice": lambda inventory: replace(
        inventory,
        hosts=tuple(
            changed_pf(one, "0000:01:00.0", lambda mine: replace(mine, addresses=known(("198.18.0.1/16",), "ip")))
            if one.name in {"gpu01", "gpu02"}
            else one
            for one in inventory.hosts
        ),
    ),
    "mac-twice": pf(mac=mac_of(1, 1)),
    "arp-flux": shared_subnet(arp_ignore=0),
    "rp-filter": shared_subnet(rp_filter=1),
    "rail-route": network(
        routes=tuple(replace(route, interface="eno1") if route.interface == "ens1np0" else route for route in ROUTES)
    ),
    "default-route": lambda inventory: changed(
        inventory,
        "gpu02",
        lambda one: replace(
            one, carriers=replace(one.carriers, default_route=known(("ens1np0",), "ip -j route show table all"))
        ),
    ),
    "gateway-swapped": point_to_point("172.16.0.4"),
    "subnets-overlap": cluster(service_cidrs=("10.11.128.0/20",)),
    "qos-trust": qos(trust="pcp"),
    "global-pause": qos(pause_rx=True),
    "pfc-switch": switch_port(pfc_priorities=()),
    "pfc-peers": lambda inventory: qos(pfc_priorities=())(replace(inventory, switches=())),
    "dscp-map": switch_port(dscp_priority=dict.fromkeys(range(64), 0)),
    "dcbx": qos(dcbx_mode="firmware"),
    "ecn": qos(ecn_np_priorities=()),
    "cnp": qos(cnp_dscp=4),
    "traffic-class": rdma(traffic_class=-1),
    "packet-loss": counters(rx_discards_phy=10 * SECONDS),
    "pause-storm": counters(tx_pause_storm_warning_events=1),
    "pause-rate": counters(rx_prio3_pause=5000 * SECONDS),
    "vfs": lambda inventory: pf(vfs_num=3)(bare(inventory)),
    "eswitch": pf(eswitch_mode="switchdev"),
    "allocatable": kube_node(allocatable={"nvidia.com/rdma_1": "3", "nvidia.com/rdma_2": "4"}),
    "vf-owners": both(
        cluster(sriov_node_states=(state(),)),
        pf(config_files=files(vfs=4, mtu_bytes=9000, addresses=(f"{address_of(1, 2)}/16",))),
    ),
    "vf-operator": cluster(sriov_node_states=(state(sync="InProgress"),)),
    "attachment": cluster(attachments=networks(resource_name="nvidia.com/unknown")),
    "rdma-namespaces": both(
        cluster(attachments=networks(config={"plugins": [{"type": "sriov"}, {"type": "rdma"}]})),
        system(rdma_namespaces="shared"),
    ),
    "topology-policy": system(kubelet_topology_policy="none"),
    "node-ip": kube_node(internal_ips=(address_of(1, 2),)),
    "numa-switch": lambda _: on_two_leaves(third=1, fourth=2),
    "cross-cabled": crossed(),
    "switch-speed": switch_port(speed_mbit_s=200_000),
    "switch-qos": switch_port(ecn={}),
    "governor": system(governors=("powersave",)),
    "swap": system(swap_kib=8_388_608),
    "clock": system(clock_synchronized=False),
}
"""By the code of the check that finds it."""

NEED_EARLIER = frozenset(
    {
        "link-flaps",
        "link-errors",
        "link-module",
        "pcie-errors",
        "mtu-peer",
        "packet-loss",
        "pause-storm",
        "pause-rate",
    }
)
NEED_LAB = frozenset({"mtu-pod", "gpu-count"})


def case(code: str) -> Case:
    """The input in which a check finds something."""
    inventory = SPOILS[code](healthy())
    return Case(
        inventory,
        earlier(inventory) if code in NEED_EARLIER else None,
        lab() if code in NEED_LAB else None,
    )


TWELVE = {
    "cross-cabled": crossed("gpu01"),
    "mtu-pf": pf("gpu02", 1, mtu_bytes=1500),
    "vfs": pf("gpu02", 2, vfs_num=3),
    "allocatable": kube_node("gpu03", allocatable={"nvidia.com/rdma_1": "4", "nvidia.com/rdma_2": "2"}),
    "pfc-switch": switch_port("leaf1", "Ethernet8", pfc_priorities=()),
    "rail-subnet": both(with_address("gpu04", 1, "10.77.0.4/16")),
    "link-speed": pf("gpu04", 2, speed_mbit_s=100_000, supported_speeds_mbit_s=(100_000,)),
    "nic-firmware": pf("gpu05", 2, firmware="28.39.1002"),
    "qos-trust": qos("gpu05", 1, trust="pcp"),
    "memlock": system("gpu01", containerd_memlock="8388608"),
    "not-persistent": pf("gpu03", 2, config_files=files(mtu_bytes=1500, addresses=(f"{address_of(2, 3)}/16",))),
    "traffic-class": rdma("gpu03", 1, traffic_class=-1),
}
"""Twelve faults of twelve kinds, by the check that finds each."""


def spoilt_in_twelve_ways() -> Inventory:
    """With the number of VFs in Kubernetes as on the host, so that a missing VF is one fault."""
    fewer = kube_node("gpu02", allocatable={"nvidia.com/rdma_1": "4", "nvidia.com/rdma_2": "3"})
    return both(*TWELVE.values(), fewer, routes_moved)(healthy())


def routes_moved(inventory: Inventory) -> Inventory:
    """The connected route of an address that moved to another subnet."""

    def change(one):  # type: ignore[no-untyped-def]
        routes = one.network.routes.map(
            lambda found: tuple(
                replace(route, destination="10.77.0.0/16") if route.interface == "ens1np0" else route for route in found
            )
        )
        return replace(one, network=replace(one.network, routes=routes))

    return changed(inventory, "gpu04", change)
