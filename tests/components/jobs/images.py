"""Root file systems of images, as far as PVRDMA's libraries are concerned."""

from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = b"\x7fELF...lib%s-rdmav34.so\0"
Tree = dict[str, bytes]
PROVIDERS = "usr/lib/x86_64-linux-gnu/libibverbs"
DEBIAN: Tree = {
    "etc/os-release": b'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n',
    "var/lib/dpkg/status": (HERE / "recorded" / "bookworm-status").read_bytes(),
    "usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0": LIBRARY,
    "etc/libibverbs.d/vmw_pvrdma.driver": b"driver vmw_pvrdma\n",
    "etc/libibverbs.d/mlx5.driver": b"driver mlx5\n",
    f"{PROVIDERS}/libvmw_pvrdma-rdmav34.so": b"",
    f"{PROVIDERS}/libmlx5-rdmav34.so": b"",
}


def as_folder(tree: Tree, place: Path) -> Path:
    for name, content in tree.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place
