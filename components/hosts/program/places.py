"""Where this program keeps its files on a host, and how long it waits."""

SCHEMA = 1
MARK = "# Written by rocelab: change the lab file instead.\n"
"""First line of files that belong to rocelab alone."""
LOCK_WAIT_S = 60
VF_WAIT_S = 120
PROBE_S = 120
"""Bound of a probe. It takes seconds; a vendor's tools may need a minute, and so may the unit of a
starting host."""
DEADLINE_S = 420
"""Bound of a run whose document has none: the full VF wait of two PFs, and the rest."""
BOOT_DEVICE_WAIT_S = 60
BOOT_LOCK_WAIT_S = 300
"""How long the unit waits for a run that is at work, and for the confirmation of what it did."""
BOOT_RUN_WAIT_S = 90
"""How long a run waits for the one at boot: it takes seconds, and more where a driver creates many
VFs."""
STARTING_S = 900
"""For how long after the boot a run checks whether the unit still runs."""

STATE = "/var/lib/rocelab"
RUN = "/run/rocelab"
LIBRARY = "/usr/local/lib/rocelab"
PROGRAM_FILE = LIBRARY + "/host.pyz"
READER_FILE = "/usr/local/lib/rocelab-reader.pyz"
"""This program as the host's administrator installs it, for logins that may only read. rocelab
never writes it."""
DOCUMENT_FILE = STATE + "/document.json"
UNCONFIRMED_FILE = STATE + "/document.unconfirmed.json"
BASELINE_FILE = STATE + "/baseline.json"
NICS_FILE = STATE + "/nics.json"
"""PCI address and MAC of each PF."""
OWNER_FILE = STATE + "/owner"
"""Name of the lab and stack that own this host; to hand the host over, remove this file."""
REVERT_FILE = RUN + "/revert.json"
REVERTED_FILE = RUN + "/reverted.json"
REBOOT_FILE = RUN + "/needs-reboot.json"
"""Fields that wait for a reboot, each with the reason. In memory: the reboot takes it away."""
FIRMWARE_BOOTS_FILE = STATE + "/firmware-boots.json"
"""By field, the boot in which a firmware setting was staged."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
LOCK_FILE = "/run/rocelab.lock"
COPY_PREFIX = ".rocelab-host"
"""Copies of this program in the login's home, one per digest, so a stack that the host refuses does
not replace the copy of its owner."""


def copy_of(sha256: str) -> str:
    """Name of the copy with that digest, in the home of the user who logs in."""
    return f"{COPY_PREFIX}-{sha256[:12]}.pyz"


UNIT = "rocelab-rdma.service"
UNIT_FILE = "/etc/systemd/system/" + UNIT
UNIT_LINK = "/etc/systemd/system/multi-user.target.wants/" + UNIT
MODULES_FILE = "/etc/modules-load.d/rocelab.conf"
SYSCTL_FILE = "/etc/sysctl.d/60-rocelab.conf"
MODPROBE_FILE = "/etc/modprobe.d/rocelab.conf"
UDEV_FILE = "/etc/udev/rules.d/90-rocelab.rules"
LINK_FILE = "/etc/systemd/network/70-rocelab-{}.link"
"""Keeps a netdev's name over a change of its driver. It stays with the driver: an undo must rename
nothing."""
FAST_FILE, SLOW_FILE = "rocelab.prom", "rocelab_slow.prom"
"""What the watch writes, in the folder of node_exporter's textfile collector."""
NETWORK_MANAGER_FILE = "/etc/udev/rules.d/91-rocelab-networkmanager.rules"
NETWORKD_DROP_INS = "/etc/systemd/networkd.conf.d"
NETWORKD_FILE = NETWORKD_DROP_INS + "/60-rocelab.conf"
DAEMON_FILES = (NETWORK_MANAGER_FILE, NETWORKD_FILE)
"""Written only on hosts with that daemon."""
SYSTEM_FILES = (
    UNIT_LINK,
    UNIT_FILE,
    MODULES_FILE,
    SYSCTL_FILE,
    MODPROBE_FILE,
    UDEV_FILE,
    *DAEMON_FILES,
    NETWORKD_DROP_INS,  # a folder that distributions do not have; removed only when it is empty
)
