"""The repository's packages: stand-ins for NVIDIA's DOCA-OFED and for containerd, as far as hosts check them."""

from simulator.packages.deb import File, Package
from simulator.packages.module import module_file

URL = "http://192.168.1.9"
"""The repository's URL on nodes."""
OFED_VERSION = "25.07-0.9.7"
CONTAINERD_VERSION = "2.1.4"
KEYRING = "/usr/share/keyrings/doca-simulated.gpg"

_DKMS = """#!/bin/sh
# Stand-in of the simulator: keeps the books of dkms and compiles nothing.
set -eu
books=/var/lib/dkms
case ${1:-} in
  status)
    for book in "$books"/*/*/*; do
      [ -f "$book/installed" ] || continue
      version=${book%/*}
      name=${version%/*}
      echo "${name##*/}/${version##*/}, ${book##*/}, x86_64: installed"
    done ;;
  autoinstall)
    for source in /usr/src/*/stand-in.ko; do
      [ -f "$source" ] || continue
      folder=${source%/*}
      module=$(cat "$folder/module")
      mkdir -p "/lib/modules/$3/updates/dkms" "$books/$(cat "$folder/name")/$(cat "$folder/version")/$3"
      cp "$source" "/lib/modules/$3/updates/dkms/$module.ko"
      : > "$books/$(cat "$folder/name")/$(cat "$folder/version")/$3/installed"
      depmod "$3"
    done ;;
esac
"""
_OFED_INFO = f"""#!/bin/sh
# Stand-in of the simulator.
case ${{1:-}} in
  -n) echo '{OFED_VERSION}' ;;
  -s) echo 'OFED-internal-{OFED_VERSION}:' ;;
  *) echo 'OFED-internal-{OFED_VERSION}: (simulated)' ;;
esac
"""
_KERNEL_POSTINST = """#!/bin/sh
set -eu
dkms autoinstall -k "$(uname -r)"
"""
_KERNEL_PRERM = """#!/bin/sh
set -eu
rm -rf /var/lib/dkms/mlnx-ofed-kernel /lib/modules/*/updates/dkms/mlx5_core.ko
depmod "$(uname -r)"
"""
_CONTAINERD = f"""#!/bin/sh
# Stand-in of the simulator: a daemon that runs, and no container.
[ "${{1:-}}" = --version ] && exec echo 'containerd github.com/containerd/containerd/v2 v{CONTAINERD_VERSION} simulated'
exec sleep infinity
"""
_CONTAINERD_UNIT = """[Unit]
Description=Stand-in of the simulator for containerd
[Service]
ExecStart=/usr/bin/containerd
LimitMEMLOCK=8M
[Install]
WantedBy=multi-user.target
"""
_CONTAINERD_POSTINST = """#!/bin/sh
set -eu
systemctl daemon-reload
systemctl enable -q --now containerd.service
"""
_CONTAINERD_PRERM = """#!/bin/sh
set -eu
systemctl disable -q --now containerd.service
"""


def packages(kernel: str) -> list[Package]:
    """All packages.

    Args:
        kernel: release of the nodes' kernel, for the headers that a driver build needs.
    """
    source = f"/usr/src/mlnx-ofed-kernel-{OFED_VERSION}"
    module = module_file(
        {
            "version": OFED_VERSION,
            "description": "stand-in of the simulator",
            "srcversion": "0B1A2C3D4E5F60718293A4B",
            "name": "mlx5_core",
            "vermagic": f"{kernel} SMP preempt mod_unload modversions ",
        }
    )
    return [
        Package(
            name="doca-ofed",
            version="3.1.0",
            summary="NVIDIA's driver stack for RDMA (simulated)",
            depends=("mlnx-ofed-kernel-dkms", "ofed-scripts"),
        ),
        Package(
            name="mlnx-ofed-kernel-dkms",
            version="25.07.OFED.25.07.0.9.7.1-1",
            summary="Kernel modules of the driver stack (simulated)",
            depends=("dkms",),
            files={
                f"{source}/stand-in.ko": File(content=module),
                f"{source}/module": File(content=b"mlx5_core\n"),
                f"{source}/name": File(content=b"mlnx-ofed-kernel\n"),
                f"{source}/version": File(content=b"25.07.OFED.25.07.0.9.7.1\n"),
            },
            scripts={"postinst": _KERNEL_POSTINST, "prerm": _KERNEL_PRERM},
        ),
        Package(
            name="ofed-scripts",
            version="25.07.OFED.25.07.0.9.7-1",
            summary="Tells the version of the driver stack (simulated)",
            files={"/usr/bin/ofed_info": File(content=_OFED_INFO.encode(), mode=0o755)},
        ),
        Package(
            name="dkms",
            version="3.0.10-8+simulated",
            summary="Builds kernel modules (simulated)",
            files={"/usr/sbin/dkms": File(content=_DKMS.encode(), mode=0o755)},
        ),
        Package(
            name=f"linux-headers-{kernel}",
            version="1+simulated",
            summary="Headers of the nodes' kernel (simulated)",
            files={f"/lib/modules/{kernel}/build/README": File(content=b"A stand-in: there are no headers.\n")},
        ),
        Package(
            name="containerd",
            version=f"{CONTAINERD_VERSION}+simulated",
            summary="Container runtime (simulated)",
            files={
                "/usr/bin/containerd": File(content=_CONTAINERD.encode(), mode=0o755),
                "/lib/systemd/system/containerd.service": File(content=_CONTAINERD_UNIT.encode()),
            },
            scripts={"postinst": _CONTAINERD_POSTINST, "prerm": _CONTAINERD_PRERM},
        ),
        Package(
            name="ipmitool",
            version="1.8.19-4+simulated",
            summary="A tool that nothing of the lab needs (simulated)",
            files={"/usr/share/doc/ipmitool/README": File(content=b"A stand-in: there is no tool.\n")},
        ),
    ]


def repository_package(keyring: bytes | None) -> Package:
    """The counterpart of the vendor's `doca-host`: configures apt with the repository and its key."""
    trust = f"Signed-By: {KEYRING}" if keyring else "Trusted: yes"
    source = f"# Stand-in of the simulator.\nTypes: deb\nURIs: {URL}\nSuites: stable\nComponents: main\n{trust}\n"
    keys = {KEYRING: File(content=keyring)} if keyring else {}
    return Package(
        name="doca-host",
        version="3.1.0",
        summary="Repository of NVIDIA's driver stack (simulated)",
        files={"/etc/apt/sources.list.d/doca.sources": File(content=source.encode()), **keys},
    )
