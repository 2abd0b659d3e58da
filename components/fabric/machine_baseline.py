"""The fields of an existing VM before rocelab changed them, in the state before anything is set.

A resource of its own, so that a kill between looking and setting loses neither. The state contains the path of this
module, so it must not move.
"""

from collections.abc import Mapping, Sequence

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    UpdateResult,
)

from components.fabric import login
from components.fabric.login import VCenterProvider
from components.fabric.props import Props, mapping, string_map, strings
from components.fabric.vms.existing import by_instance, by_name, still_there
from components.ssh.credentials import Setting
from stacks.base import LabError

FOUND = ("uuid", "instance", "was_on", "found")


class MachineBaselineProvider(VCenterProvider):
    """Reads each declared field once, and keeps its value."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Refuses in a preview a new name that no VM has, or two."""
        try:
            if _olds.get("path"):
                led_elsewhere(self._setting, _olds, news)
        except LabError as error:
            return CheckResult(news, [CheckFailure("path", str(error))])
        return CheckResult(news, [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another VM is another baseline; a newly declared field is read now."""
        replaces = ["path"] if led_elsewhere(self._setting, _olds, _news) else []
        same = all(_olds.get(key) == _news.get(key) for key in ("path", "fields"))
        return DiffResult(changes=bool(replaces) or not same, replaces=replaces)

    def create(self, props: Props) -> CreateResult:
        with self._vcenter() as vcenter:
            vm = by_name(vcenter, str(props["path"]))
            found = {
                "uuid": str(vm.facts["config.uuid"]),
                "instance": vm.instance,
                "was_on": vm.on,
                "found": vm.read(strings(props, "fields"), string_map(props, "networks")),
            }
            return CreateResult(f"{vcenter.instance_uuid}/{vm.instance}", {**props, **found})

    def read(self, id_: str, props: Props) -> ReadResult:
        """The baseline lasts as long as the VM exists."""
        with self._vcenter() as vcenter:
            gone = by_instance(vcenter, str(props["instance"])) is None
        return ReadResult("", {}) if gone else ReadResult(id_, props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Reads new fields, and forgets those that are no longer declared."""
        with self._vcenter() as vcenter:
            vm = still_there(vcenter, str(_olds["instance"]), str(_olds["path"]))
            now = vm.read(strings(_news, "fields"), string_map(_news, "networks"))
        kept = {key: value for key, value in mapping(_olds.get("found")).items() if key in now}
        same = {key: _olds[key] for key in FOUND if key != "found"}
        return UpdateResult({**_news, **same, "found": {**now, **kept}})


class MachineBaseline(Resource, module="fabric", name="MachineBaseline"):
    """The declared fields of one VM before rocelab changed them."""

    uuid: pulumi.Output[str]
    """BIOS UUID, by which the vSphere provider identifies VMs."""
    instance: pulumi.Output[str]
    """vCenter's UUID of the VM."""
    was_on: pulumi.Output[bool]
    found: pulumi.Output[dict[str, object]]

    def __init__(
        self,
        name: str,
        path: str,
        fields: Sequence[str],
        networks: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        asked = {"path": path, "fields": sorted(fields), "networks": dict(networks)}
        super().__init__(MachineBaselineProvider(), name, {**asked, **dict.fromkeys(FOUND)}, opts)


def led_elsewhere(setting: Setting, olds: Props, news: Props) -> bool:
    """Whether a new path names another VM. A VM that was renamed, or whose datacenter was, is the same VM.

    Otherwise its new baseline would hold rocelab's own values, and deleting the old one would remove them.

    Raises:
        LabError: when no VM has the new path, or two have.
    """
    if olds.get("path") == news.get("path"):
        return False
    with login.configured_session(setting) as vcenter:
        return by_name(vcenter, str(news["path"])).instance != olds.get("instance")
