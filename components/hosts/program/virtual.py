"""How VFs are made and given a driver, and when that is refused."""

from typing import Iterable

from .host import Host, Vf
from .machine import StepError
from .places import VF_WAIT_S


def refuse_vfs_in_use(host: Host, pf: str, wanted: int) -> None:
    """The kernel changes a count only by removing every VF first, so one in use forbids it."""
    host.forget()
    uses = host.uses(pf)
    if uses:
        index = min(uses)
        raise StepError(
            f"{pf} has {len(host.vfs(pf))} VFs and {wanted} are wanted, but VF {index} is in use: {uses[index]}",
            "drain the node or delete the pods that use its VFs, then run again",
        )
    most = offered_vfs(host, pf)
    if wanted > most:
        raise StepError(
            f"{pf} offers {most} VFs and {wanted} are wanted",
            "enable SR-IOV in the firmware of machine and NIC (mlxconfig SRIOV_EN, NUM_OF_VFS), or lower vfs",
        )


def offered_vfs(host: Host, pf: str) -> int:
    """How many VFs a PF offers at most; 0 when firmware or machine have SR-IOV switched off."""
    return int(host.machine.read(f"/sys/class/net/{pf}/device/sriov_totalvfs") or 0)


def create_vfs(host: Host, pf: str, count: int) -> None:
    """Sets the number of VFs and leaves them without driver, so that each starts once, with its address."""
    machine, device = host.machine, f"/sys/class/net/{pf}/device"
    autoprobe = machine.exists(device + "/sriov_drivers_autoprobe")
    try:
        if autoprobe:
            machine.write(device + "/sriov_drivers_autoprobe", "0")
        if host.vfs(pf):
            machine.write(device + "/sriov_numvfs", "0")  # the kernel refuses to go from one count to another
        if count:
            machine.write(device + "/sriov_numvfs", str(count))
    except OSError as error:
        raise StepError(
            f"{pf} refuses {count} VFs: {error.strerror}", "its driver's limit may be lower; dmesg says more"
        ) from None
    finally:
        if autoprobe:
            machine.write(device + "/sriov_drivers_autoprobe", "1")
    if not machine.wait(lambda: len(host.vfs(pf)) == count, VF_WAIT_S):
        raise StepError(f"{pf} has {len(host.vfs(pf))} of {count} VFs after {VF_WAIT_S} s", "dmesg says why")


def bind_vfs(host: Host, vfs: Iterable[Vf]) -> None:
    """Starts the driver of VFs and waits for their netdevs under their final names."""
    machine, paths = host.machine, []
    for vf in vfs:
        autoprobe = f"{vf.path}/physfn/sriov_drivers_autoprobe"
        if machine.read(autoprobe) == "0":
            machine.write(autoprobe, "1")  # off: a run before this one was killed between its two writes
        if not machine.target(f"{vf.path}/driver"):
            machine.write("/sys/bus/pci/drivers_probe", vf.pci_address)
        paths.append(vf.path)
    if not paths:
        return
    if not machine.wait(lambda: all(machine.names(path + "/net") for path in paths), VF_WAIT_S):
        late = [path for path in paths if not machine.names(path + "/net")]
        raise StepError(f"no netdev for {', '.join(late)} after {VF_WAIT_S} s", "is the VFs' driver loaded? See dmesg")
    machine.run("udevadm", "settle", "--timeout=30")  # udev renames them
