"""What mpirun gives to each rank: NCCL's variables, and the RDMA devices that the rank's own pod can use."""

from components.jobs.image.speaks import at_start
from components.jobs.workers import Workers

USE_OWN_DEVICES = (
    'found=""; index=""; for each in {interfaces}; do for device in "$each"/device/infiniband/*; do '
    '[ -e "$device" ] || continue; found="$found${{found:+,}}${{device##*/}}"; own=none; '
    'for type in $(grep -slx "RoCE v2" "$device"/ports/1/gid_attrs/types/*); do number="${{type##*/}}"; '
    'grep -sqx "${{each##*/}}" "$device/ports/1/gid_attrs/ndevs/$number" && '
    'grep -sq "^0000:0000:0000:0000:0000:ffff:" "$device/ports/1/gids/$number" && own="$number" && break; done; '
    '[ "${{index:-$own}}" = "$own" ] && index="$own" || index=none; done; done; '
    '[ -n "$found" ] || found="{shared}"; [ -z "$found" ] || export NCCL_IB_HCA="=$found"; '
    '[ "${{index:-none}}" = none ] || export NCCL_IB_GID_INDEX="$index"; exec "$@"'
)
"""A rank's start. With shared RDMA namespaces every pod sees every RDMA device of its node, but has addresses on its
own VFs only: NCCL would choose one of the others and fail. So each rank names those of its own interfaces, or the
PFs' where pods share these.

The GID index differs from pod to pod. NCCL before 2.21, such as that of older training images, takes index 0 (RoCE v1,
a link-local address) unless it is told, and takes one index for all devices: each rank names the RoCE v2 entry with
the IPv4 address of its own interface, if that has the same number on all of them. Otherwise newer ones find it.
"""

SYSFS = "/sys/class/net"


def rank_script(workers: Workers, sysfs: str = SYSFS, root: str = "") -> str:
    """The start of a rank as shell text; in pods Multus names the rails' interfaces net1, net2 and so on.

    Over PVRDMA it first looks at its own image: jobs name any image, and not every one is a recipe's.
    """
    names = workers.host.pfs if workers.host else ("net*",)
    interfaces = " ".join(f"{sysfs}/{name}" for name in names)
    devices = USE_OWN_DEVICES.format(interfaces=interfaces, shared=",".join(workers.shared_devices))
    return (at_start(root) if workers.pvrdma else "") + devices


def nccl_variables(workers: Workers) -> dict[str, str]:
    """NCCL's settings for the transport."""
    bootstrap = {"NCCL_SOCKET_IFNAME": ",".join(workers.bootstrap_interfaces)}
    shown = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV"}
    if workers.transport == "tcp":
        return {**shown, "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", **bootstrap}
    return {
        **shown,
        # IB fails loudly where NCCL would use sockets without a word
        "NCCL_NET": "IB",
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET_GDR_LEVEL": "PXB" if workers.gpu_direct else "LOC",  # seed A's 2, seed B's 0
        **({"NCCL_IB_TC": str(workers.traffic_class)} if workers.traffic_class is not None else {}),
        # NCCL's default, 2, may join NICs of two rails, and between rails without a router no packet passes
        **({} if workers.routed else {"NCCL_CROSS_NIC": "0"}),
        **bootstrap,
    }


def rank_words(workers: Workers, variables: dict[str, str]) -> list[str]:
    """Words of mpirun between its own options and the program. sshd sessions do not inherit a pod's environment."""
    exported = {**nccl_variables(workers), **variables}
    words = [word for name, value in exported.items() for word in ("-x", f"{name}={value}")]
    words += ["-x", "LD_LIBRARY_PATH", "-x", "PATH"]
    if workers.transport == "tcp":
        return words
    return [*words, "sh", "-c", rank_script(workers), "rank"]
