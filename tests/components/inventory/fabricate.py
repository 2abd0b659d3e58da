"""A healthy cluster as an inventory: so many equal hosts on so many rails, one leaf per rail, one subnet per rail.

Rail k (from 1) of host n (from 1): PF of bus 10+k, `ens{k}np0`, `mlx5_{k-1}`, `10.(10+k).0.n/16`, the GPU behind the
same bridge, port `Ethernet{4(n-1)}` of `leaf{k}`. Use `dataclasses.replace` and `changed` to spoil it.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from components.inventory.model import (
    SCHEMA,
    Attachment,
    Carriers,
    Cluster,
    ConfigFile,
    Counters,
    DaemonSet,
    Driver,
    Gid,
    Gpu,
    GpuHealth,
    Host,
    Inventory,
    KubeNode,
    Link,
    NearestGpus,
    Network,
    Peer,
    Pf,
    Qos,
    RdmaPort,
    Route,
    Switch,
    SwitchPort,
    System,
    Vf,
)
from components.inventory.reading import known
from components.switches.settings import Announcement, LearnedMac

READ_AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
VFS = 4
PRIORITY = 3
MANAGEMENT_PCI = "0000:01:00.0"
COUNTERS = (
    "rx_crc_errors_phy",
    "rx_symbol_err_phy",
    "rx_discards_phy",
    "rx_prio3_pause",
    "tx_pause_storm_warning_events",
)
HW_COUNTERS = ("out_of_sequence", "local_ack_timeout_err", "np_cnp_sent", "rp_cnp_handled")


def fabricate(
    hosts: int = 2, rails: int = 2, *, first: str = "gpu", switches: bool = True, cluster: bool = True
) -> Inventory:
    """The inventory of a cluster in which nothing is wrong."""
    return Inventory(
        schema=SCHEMA,
        read_at=READ_AT,
        hosts=tuple(host(f"{first}{n:02}", n, rails, hosts) for n in range(1, hosts + 1)),
        switches=tuple(leaf(k, hosts, first) for k in range(1, rails + 1)) if switches else (),
        cluster=kubernetes(hosts, rails, first) if cluster else None,
    )


def changed(inventory: Inventory, name: str, change: Callable[[Host], Host]) -> Inventory:
    """The same inventory with one host changed."""
    return replace(inventory, hosts=tuple(change(each) if each.name == name else each for each in inventory.hosts))


def changed_pf(one: Host, pci: str, change: Callable[[Pf], Pf]) -> Host:
    """The same host with one PF changed."""
    return replace(one, pfs=one.pfs.map(lambda pfs: tuple(change(pf) if pf.pci == pci else pf for pf in pfs)))


def pci_of(rail: int) -> str:
    return f"0000:{10 + rail:02x}:00.0"


def gpu_of(rail: int) -> str:
    return f"0000:{10 + rail:02x}:01.0"


def mac_of(rail: int, n: int) -> str:
    return f"02:00:{rail:02x}:00:{n >> 8:02x}:{n & 255:02x}"


def address_of(rail: int, n: int) -> str:
    """Of host n, for up to 65,000 hosts."""
    return f"10.{10 + rail}.{n >> 8}.{n & 255}"


def management_of(n: int) -> str:
    """Out of the range for benchmarks, 198.18.0.0/15."""
    return f"198.18.{n >> 8}.{n & 255}"


def host(name: str, n: int, rails: int, hosts: int) -> Host:
    numbers = range(1, rails + 1)
    interfaces = ["eno1", *(f"ens{k}np0" for k in numbers)]
    conf = "/proc/sys/net/ipv4/conf"
    sysctls = {f"net.ipv4.conf.{each}.arp_ignore": 1 for each in ("all", *interfaces)}
    sysctls |= {f"net.ipv4.conf.{each}.arp_announce": 2 for each in ("all", *interfaces)}
    sysctls |= {f"net.ipv4.conf.{each}.rp_filter": 2 for each in ("all", *interfaces)}
    routes = [
        Route(destination="default", gateway="198.18.255.254", interface="eno1"),
        Route(destination="198.18.0.0/16", interface="eno1", source=management_of(n)),
        *(Route(destination=f"10.{10 + k}.0.0/16", interface=f"ens{k}np0", source=address_of(k, n)) for k in numbers),
    ]
    other = n % hosts + 1
    peers = [
        Peer(address=address_of(k, other), interface=f"ens{k}np0", mac=mac_of(k, other), state="REACHABLE")
        for k in numbers
    ]
    return Host(
        name=name,
        address=management_of(n),
        user="ops",
        host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFabricated",
        read_at=READ_AT,
        system=system(name, n),
        pfs=known((management_pf(n), *(pf(k, n) for k in numbers)), "/sys/bus/pci/devices"),
        gpus=known(tuple(gpu(k) for k in numbers), "/sys/bus/pci/devices"),
        network=Network(
            links=known((Link(name="cni0", kind="bridge", mtu_bytes=1500, up=True),), "ip -j -d link"),
            routes=known(tuple(routes), "ip -j route show table all"),
            rules=known((), "ip -j rule"),
            peers=known(tuple(peers), "ip -j neigh"),
            sysctls=known(sysctls, conf),
        ),
        carriers=Carriers(
            ssh=known(("eno1",), "SSH_CONNECTION"),
            default_route=known(("eno1",), "ip -j route show table all"),
            storage=known({}, "/proc/mounts"),
        ),
    )


def system(name: str, n: int) -> System:
    mlx5 = Driver(
        module="mlx5_core",
        loaded=known("25.07-0.9.7", "/sys/module/mlx5_core/version"),
        loaded_srcversion=known("A1B2C3", "/sys/module/mlx5_core/srcversion"),
        on_disk=known("25.07-0.9.7", "modinfo mlx5_core"),
        on_disk_srcversion=known("A1B2C3", "modinfo mlx5_core"),
    )
    return System(
        hostname=known(name, "/proc/sys/kernel/hostname"),
        vendor=known("Dell Inc.", "/sys/class/dmi/id/sys_vendor"),
        product=known("PowerEdge XE9680", "/sys/class/dmi/id/product_name"),
        numa_nodes=known(2, "/sys/devices/system/node"),
        os=known("Ubuntu 24.04.1 LTS", "/etc/os-release"),
        kernel=known("6.8.0-60-generic", "/proc/sys/kernel/osrelease"),
        kernel_arguments=known(("iommu=pt",), "/proc/cmdline"),
        boot_id=known(f"00000000-0000-4000-8000-{n:012}", "/proc/sys/kernel/random/boot_id"),
        drivers=known((mlx5,), "/sys/module"),
        modules=known(("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "nvidia", "nvidia_peermem"), "/proc/modules"),
        gpu_driver=known("570.124.06", "/proc/driver/nvidia/version"),
        xids=known((), "journalctl -k"),
        fabric_manager=known("570.124.06", "nv-fabricmanager --version"),
        containerd_memlock=known("infinity", "systemctl show containerd"),
        reboot_required=known(value=False, source="/run/reboot-required"),
        governors=known(("performance",), "/sys/devices/system/cpu"),
        swap_kib=known(0, "/proc/meminfo"),
        clock_synchronized=known(value=True, source="timedatectl show"),
        rdma_namespaces=known("exclusive", "rdma system show"),
        kubelet_topology_policy=known("restricted", "/var/lib/kubelet/config.yaml"),
        kernel_complaints=known((), "journalctl -k"),
        acs_bridges=known((), "lspci -vvv"),
        sudo=True,
    )


def management_pf(n: int) -> Pf:
    net = "/sys/class/net/eno1"
    return Pf(
        pci=MANAGEMENT_PCI,
        interfaces=known(("eno1",), "/sys/class/net"),
        mac=known(mac_of(0, n), f"{net}/address"),
        driver=known("igb", f"{net}/device/driver"),
        vendor_id=known("8086", f"{net}/device/vendor"),
        device_id=known("1521", f"{net}/device/device"),
        up=known(value=True, source="ip -j addr"),
        carrier=known(value=True, source=f"{net}/carrier"),
        carrier_changes=known(2, f"{net}/carrier_changes"),
        speed_mbit_s=known(1000, f"{net}/speed"),
        mtu_bytes=known(1500, f"{net}/mtu"),
        addresses=known((f"{management_of(n)}/16",), "ip -j addr"),
        master=known("", "ip -j addr"),
        numa_node=known(0, f"{net}/device/numa_node"),
        bridges=known(("0000:00:01.0",), f"{net}/device"),
        nearest_gpus=known(NearestGpus(gpus=()), f"{net}/device"),
        rdma=known((), f"{net}/device/infiniband"),
        vfs_num=known(0, f"{net}/device/sriov_numvfs"),
        vfs=known((), f"{net}/device"),
        lldp=known(
            (Announcement(system="oob1", chassis_id="02:aa:00:00:00:01", port_id=f"Eth{n}"),), "lldpctl -f json0"
        ),
    )


def pf(k: int, n: int) -> Pf:
    name, device = f"ens{k}np0", f"mlx5_{k - 1}"
    net, rdma, pci = f"/sys/class/net/{name}", f"/sys/class/infiniband/{device}", pci_of(k)
    ipv4 = address_of(k, n)
    slot = known((f"0000:{k:02x}:00.0", f"0000:{10 + k:02x}:10.0"), f"{net}/device")
    vfs = [
        Vf(
            number=v,
            pci=f"0000:{10 + k:02x}:00.{v + 2}",
            interfaces=(f"ens{k}v{v}",),
            mtu_bytes=known(9000, "ip -j addr"),
        )
        for v in range(VFS)
    ]
    gid = "0000:0000:0000:0000:0000:ffff:" + "{:02x}{:02x}:{:02x}{:02x}".format(*map(int, ipv4.split(".")))
    return Pf(
        pci=pci,
        interfaces=known((name,), "/sys/class/net"),
        mac=known(mac_of(k, n), f"{net}/address"),
        driver=known("mlx5_core", f"{net}/device/driver"),
        vendor_id=known("15b3", f"{net}/device/vendor"),
        device_id=known("1021", f"{net}/device/device"),
        board_id=known("MT_0000000838", f"{rdma}/board_id"),
        firmware=known("28.45.1200", f"{rdma}/fw_ver"),
        pending_firmware=known((), "mstconfig -e query"),
        firmware_settings=known({"ATS_ENABLED": 0, "PCI_WR_ORDERING": 0}, "mstconfig -e query"),
        roce_acceleration=known({"roce_adp_retrans_en": 1}, "mstreg --reg_name ROCE_ACCL --get"),
        up=known(value=True, source="ip -j addr"),
        carrier=known(value=True, source=f"{net}/carrier"),
        carrier_changes=known(2, f"{net}/carrier_changes"),
        speed_mbit_s=known(400_000, f"{net}/speed"),
        supported_speeds_mbit_s=known((100_000, 200_000, 400_000), f"ethtool {name}"),
        fec=known("rs", f"ethtool --show-fec {name}"),
        mtu_bytes=known(9000, f"{net}/mtu"),
        addresses=known((f"{ipv4}/16",), "ip -j addr"),
        master=known("", "ip -j addr"),
        numa_node=known((k - 1) % 2, f"{net}/device/numa_node"),
        pcie_speed_gt_s=known(32.0, f"{net}/device/current_link_speed"),
        pcie_max_speed_gt_s=known(32.0, f"{net}/device/max_link_speed"),
        pcie_width=known(16, f"{net}/device/current_link_width"),
        pcie_max_width=known(16, f"{net}/device/max_link_width"),
        max_read_request_bytes=known(4096, f"{net}/device/config"),
        relaxed_ordering=known(value=True, source=f"{net}/device/config"),
        ats=known(value=False, source=f"{net}/device/config"),
        bridges=slot,
        nearest_gpus=known(NearestGpus(gpus=(gpu_of(k),), bridge=f"0000:{10 + k:02x}:10.0"), f"{net}/device"),
        iommu_group_type=known("identity", f"{net}/device/iommu_group/type"),
        rdma=known((rdma_port(device, name, gid, ipv4),), f"{net}/device/infiniband"),
        vfs_num=known(VFS, f"{net}/device/sriov_numvfs"),
        vfs=known(tuple(vfs), f"{net}/device"),
        eswitch_mode=known("legacy", f"devlink dev eswitch show pci/{pci}"),
        qos=Qos(
            trust=known("dscp", f"mlnx_qos -i {name}"),
            pfc_priorities=known((PRIORITY,), f"mlnx_qos -i {name}"),
            pause_rx=known(value=False, source=f"ethtool -a {name}"),
            pause_tx=known(value=False, source=f"ethtool -a {name}"),
            dscp_priority=known({point: point >> 3 for point in range(64)}, f"mlnx_qos -i {name}"),
            dcbx_mode=known("os", f"mlnx_qos -i {name}"),
            ecn_np_priorities=known((PRIORITY,), f"{net}/ecn/roce_np/enable"),
            ecn_rp_priorities=known((PRIORITY,), f"{net}/ecn/roce_rp/enable"),
            cnp_dscp=known(48, f"{net}/ecn/roce_np/cnp_dscp"),
            cnp_priority=known(6, f"{net}/ecn/roce_np/cnp_802p_prio"),
        ),
        lldp=known((switch_neighbour(k, n),), "lldpctl -f json0"),
        config_files=known(
            (
                ConfigFile(
                    path="/etc/netplan/60-rails.yaml", manager="netplan", mtu_bytes=9000, addresses=(f"{ipv4}/16",)
                ),
            ),
            "/etc/netplan",
        ),
        counters=known(
            Counters(uptime_s=86_400.0, values=dict.fromkeys((*COUNTERS, *HW_COUNTERS), 0)), f"ethtool -S {name}"
        ),
    )


def rdma_port(device: str, interface: str, gid: str, ipv4: str) -> RdmaPort:
    root = f"/sys/class/infiniband/{device}/ports/1"
    gids = (
        Gid(index=2, gid=gid, type="IB/RoCE v1", interface=interface, ipv4=ipv4),
        Gid(index=3, gid=gid, type="RoCE v2", interface=interface, ipv4=ipv4),
    )
    return RdmaPort(
        device=device,
        link_layer=known("Ethernet", f"{root}/link_layer"),
        state=known("ACTIVE", f"{root}/state"),
        active_mtu_bytes=known(4096, f"ibv_devinfo -d {device}"),
        gids=known(gids, f"{root}/gids"),
        traffic_class=known(106, f"/sys/class/infiniband/{device}/tc/1/traffic_class"),
    )


HEALTHY = GpuHealth(
    ecc_uncorrected=0,
    remap_pending=False,
    remap_failed=False,
    recovery_action="None",
    performance_state="P0",
    pcie_generation=5,
    pcie_max_generation=5,
    pcie_width=16,
    pcie_max_width=16,
    fabric_state="Completed",
    fabric_status="Success",
)


def gpu(k: int) -> Gpu:
    return Gpu(
        pci=gpu_of(k),
        vendor_id="10de",
        device_id="2330",
        bridges=known((f"0000:{k:02x}:00.0", f"0000:{10 + k:02x}:10.0"), f"/sys/bus/pci/devices/{gpu_of(k)}"),
        model=known("NVIDIA H100 80GB HBM3", "nvidia-smi"),
        health=known(HEALTHY, "nvidia-smi -q -x"),
        nvlinks=known((26.562,) * 18, "nvidia-smi nvlink -s"),
    )


def switch_neighbour(k: int, n: int) -> Announcement:
    return Announcement(system=f"leaf{k}", chassis_id=mac_of(200 + k % 50, 0), port_id=f"Ethernet{4 * (n - 1)}")


def leaf(k: int, hosts: int, first: str) -> Switch:
    config, table = "sonic-cfggen -d --print-data", "show mac"

    def port(n: int) -> SwitchPort:
        heard = Announcement(system=f"{first}{n:02}", port_id=mac_of(k, n), port_description=f"ens{k}np0")
        return SwitchPort(
            name=f"Ethernet{4 * (n - 1)}",
            neighbours=known((heard,), "lldpctl -f json0"),
            speed_mbit_s=known(400_000, config),
            mtu_bytes=known(9216, config),
            vlans=known((10 + k,), config),
            native_vlan=known(10 + k, config),
            trust=known("dscp", config),
            dscp_priority=known({point: point >> 3 for point in range(64)}, config),
            pfc_priorities=known((PRIORITY,), config),
            ecn=known({PRIORITY: "150-1500 kB"}, config),
        )

    return Switch(
        name=f"leaf{k}",
        os="sonic",
        address=f"192.0.2.{200 + k % 50}",
        host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFabricated",
        read_at=READ_AT,
        chassis_id=known(mac_of(200 + k % 50, 0), "lldpctl -f json0"),
        ports=known(tuple(port(n) for n in range(1, hosts + 1)), config),
        macs=known(
            tuple(
                LearnedMac(mac=mac_of(k, n), port=f"Ethernet{4 * (n - 1)}", vlan_id=10 + k) for n in range(1, hosts + 1)
            ),
            table,
        ),
    )


def kubernetes(hosts: int, rails: int, first: str) -> Cluster:
    resources = {f"nvidia.com/rdma_{k}": str(VFS) for k in range(1, rails + 1)}
    sizes = {"cpu": "112", "memory": "2112512000Ki", "nvidia.com/gpu": str(rails), **resources}

    def node(n: int) -> KubeNode:
        return KubeNode(
            name=f"{first}{n:02}",
            internal_ips=(management_of(n),),
            allocatable=sizes,
            capacity=sizes,
            pod_cidrs=(f"10.{128 + (n >> 8)}.{n & 255}.0/24",),
        )

    def attachment(k: int) -> Attachment:
        return Attachment(
            namespace="default",
            name=f"rdma{k}",
            resource_name=f"nvidia.com/rdma_{k}",
            config={"cniVersion": "0.3.1", "type": "sriov", "name": f"rdma{k}"},
        )

    return Cluster(
        server="https://192.0.2.250:6443",
        read_at=READ_AT,
        nodes=known(tuple(node(n) for n in range(1, hosts + 1)), "GET /api/v1/nodes"),
        attachments=known(
            tuple(attachment(k) for k in range(1, rails + 1)),
            "GET /apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
        ),
        sriov_node_states=known((), "GET /apis/sriovnetwork.openshift.io/v1/sriovnetworknodestates"),
        sriov_policies=known((), "GET /apis/sriovnetwork.openshift.io/v1/sriovnetworknodepolicies"),
        nic_cluster_policies=known((), "GET /apis/mellanox.com/v1alpha1/nicclusterpolicies"),
        ip_pools=known((), "GET /apis/nv-ipam.nvidia.com/v1alpha1/ippools"),
        daemon_sets=known(
            (
                DaemonSet(
                    namespace="kube-system",
                    name="kube-sriov-device-plugin",
                ),
            ),
            "GET /apis/apps/v1/daemonsets",
        ),
        service_cidrs=known(("172.20.0.0/16",), "GET /apis/networking.k8s.io/v1/servicecidrs"),
    )
