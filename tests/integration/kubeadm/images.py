"""Images as an archive, which containerd imports: all that kubeadm starts.

They have the names that kubeadm asks for, and hold what was built here from the same sources instead of the release's.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from simulator.nodes.oci import Image, Layer


def cluster_images(programs: Mapping[str, Path], plane: Path, proxy: Path, names: Sequence[str]) -> dict[str, Image]:
    """The images of `kubeadm config images list`, by those names.

    Args:
        programs: what was built.
        plane: the simulator's control plane, four programs in one.
        proxy: a folder with what kube-proxy calls.
        names: what kubeadm asks for.
    """
    found = {}
    for name in names:
        what = kind(name)
        layers: list[Layer] = [{f"usr/local/bin/{what}": programs.get(what, programs["shim"])}]
        if what in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            layers.insert(0, {"plane": plane})  # the same in all three, and stored once
        elif what == "kube-proxy":
            layers.insert(0, {".": proxy})
        # these two are started by their images, the others by name
        start = {"pause": ["/usr/local/bin/pause"], "coredns": ["/usr/local/bin/coredns"]}
        found[name] = Image(layers=layers, entrypoint=start.get(what, []))
    return found


def kind(name: str) -> str:
    """`kube-proxy` of `registry.k8s.io/kube-proxy:v1.36.3`."""
    return name.rpartition("/")[2].partition(":")[0]
