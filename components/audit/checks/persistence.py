"""What is set at boot: after it, a host should be as it runs now."""

from components.audit.checks.addressing import rail_address, rail_subnet
from components.audit.checks.mtu import mtu_pf
from components.audit.checks.pods import vfs
from components.audit.findings import Faults, Severity
from components.audit.registry import PRACTICE, check
from components.audit.view import View, fault
from components.inventory.reading import known


@check(
    "not-persistent",
    Severity.HIGH,
    title="MTU, address or VFs change at the next boot",
    why="after a reboot the host differs from its peers",
    source=PRACTICE,
    remedy="write the running values to the file that sets them at boot, and remove others for "
    "this interface",
)
def not_persistent(view: View) -> Faults:
    wrong = {}
    for judge in (mtu_pf, rail_address, rail_subnet, vfs):
        wrong[judge] = view.places_of(judge)
    for port, _, files in view.each(view.ports, lambda port: port.pf.config_files):
        here = port.node, port.part
        running = {text.partition("/")[0] for text in port.pf.addresses.or_else(())}
        mtu, count = port.pf.mtu_bytes.value, port.pf.vfs_num.value
        for file in files:
            source, set_by = (
                known("", file.path),
                {text.partition("/")[0] for text in file.addresses},
            )
            # what is wrong now has a finding, and is right again after the boot
            if mtu is not None and file.mtu_bytes not in {None, mtu} and here not in wrong[mtu_pf]:
                yield fault(
                    port,
                    source,
                    f"{file.manager} sets MTU {file.mtu_bytes}",
                    f"MTU {mtu}, as it runs",
                )
            if count is not None and file.vfs not in {None, count} and here not in wrong[vfs]:
                yield fault(
                    port, source, f"{file.manager} makes {file.vfs} VFs", f"{count}, as it runs"
                )
            moved = here in wrong[rail_address] or here in wrong[rail_subnet]
            if set_by and running and not running & set_by and not moved:
                yield fault(
                    port, source, f"{file.manager} sets a different address", "the current address"
                )
    yield from view.lacking(
        (port for port in view.ports if port.ipv4),
        lambda port: port.pf.config_files.map(lambda files: any(file.addresses for file in files)),
        "a file sets its address",
        "no file sets its address",
    )
