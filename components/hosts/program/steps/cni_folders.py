"""Whether containerd looks for CNI plugins and their configuration where Multus puts them."""

import re
from typing import Any, Dict, List

from ..containers import CONFIG_FILE, drop_ins
from ..host import Document, Host
from ..step import Step

SETTING = re.compile(r"^\s*(bin_dirs?|conf_dir)\s*=\s*(.+)$", re.MULTILINE)
QUOTED = re.compile(r"""["']([^"']*)["']""")


class CniFolders(Step):
    """Only checked: rocelab does not own this containerd, so its configuration stays unchanged.

    containerd's own default is /opt/cni/bin; Debian's package sets /usr/lib/cni in its
    /etc/containerd/config.toml. There containerd finds 00-multus.conf and no multus-shim, or never
    calls Multus at all.
    """

    name = "cni_folders"
    order = 365

    def concerns(self, document: Document) -> bool:
        return bool(document.get("cni_folders"))

    def facts(self, host: Host) -> Dict[str, Any]:
        declared, configured = host.document["cni_folders"], cni_folders(host)
        plugins, configurations = declared["bin"], declared["conf"]
        settings = {
            "bin": f'bin_dir = "{plugins}" (bin_dirs = ["{plugins}"] from containerd 2.1 on)',
            "conf": f'conf_dir = "{configurations}"',
        }
        warnings = []
        for kind, what in (("bin", "plugins"), ("conf", "configurations")):
            looked, folder = configured[kind], declared[kind]
            if looked and folder not in looked:
                warnings.append(
                    f"containerd looks for CNI {what} in {' and '.join(looked)}, but they are in "
                    f"{folder}, so no pod gets a rail. Set {settings[kind]} in "
                    "/etc/containerd/config.toml and restart containerd, or set "
                    "runtime.containerd.source: packaged"
                )
        return {"warnings": warnings} if warnings else {}


def cni_folders(host: Host) -> Dict[str, List[str]]:
    """The folders in containerd's files; empty where its default applies, or without containerd.

    The files are read because `containerd config dump` takes a second in each run.
    """
    machine = host.machine
    configured: Dict[str, List[str]] = {"bin": [], "conf": []}
    for path in (CONFIG_FILE, *drop_ins(machine)):
        for name, value in SETTING.findall(machine.content(path).decode(errors="replace")):
            folders = [folder for folder in QUOTED.findall(value) if folder]
            if folders:
                configured["conf" if name == "conf_dir" else "bin"] = folders
    return configured
