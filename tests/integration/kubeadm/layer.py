"""What a node of the test has beyond the simulator's image: a runtime, Kubernetes' programs and the images they start.

All that an administrator has installed before the lab's own work begins.
"""

import shutil
from pathlib import Path

from simulator.nodes import oci
from simulator.nodes.cache import made_once, run
from simulator.part import Report
from tests.integration.kubeadm import images, programs

ROOT = Path(__file__).with_name("root")
"""Files as they are on a node."""
WORKER = ("kube-proxy", "pause", "coredns")
"""Images of pods that any node may get; the others are a control plane's."""


def node_layer(kubeadm: Path, plane: Path, report: Report) -> Path:
    """A folder that is laid over the simulator's image.

    Args:
        kubeadm: the engine's.
        plane: the simulator's control plane, four programs in one.
        report: takes what is being made.
    """
    found = programs.built(report)
    debian = programs.packages(report)
    names = run(str(kubeadm), "config", "images", "list", f"--kubernetes-version=v{programs.VERSION}").split()
    code = [Path(file) for file in (__file__, images.__file__, oci.__file__, programs.__file__)]
    sources = [*sorted(path for path in ROOT.rglob("*") if path.is_file()), *code]
    made_of = [str(path) for path in (*found.values(), debian, plane.resolve(), kubeadm.resolve())]

    def fill(folder: Path) -> None:
        proxy = folder / "proxy"
        proxy.mkdir()
        programs.merge(debian, programs.PROXY_PACKAGES, proxy)
        programs.merge(debian, programs.NODE_PACKAGES, folder)
        _move_into_usr(folder)
        run("cp", "-a", f"{ROOT}/.", str(folder))
        for path in (folder / "opt/cni/bin", folder / "usr/local/libexec", folder / "opt/images"):
            path.mkdir(parents=True)
        run("cp", "-a", f"{folder}/usr/lib/cni/.", str(folder / "opt/cni/bin"))
        for name in ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr"):
            shutil.copy2(found[name], folder / "usr/local/bin" / name)
        shutil.copy2(kubeadm, folder / "usr/local/libexec/kubeadm")
        made = images.cluster_images(found, plane.resolve(), proxy, names)
        few = {name: image for name, image in made.items() if images.kind(name) in WORKER}
        oci.write_archive(folder / "opt/images/control_plane.tar", made)
        oci.write_archive(folder / "opt/images/worker.tar", few)
        shutil.rmtree(proxy)
        [pause] = [name for name in names if images.kind(name) == "pause"]
        config = folder / "etc/containerd/config.toml"
        config.write_text(config.read_text().replace("@PAUSE@", pause))

    return made_once("kubeadm-layer", "\n".join([*made_of, *(path.read_text() for path in sources)]), fill, report)


def _move_into_usr(folder: Path) -> None:
    """Debian 12 has these in usr, and links in their place; not all of its packages know."""
    for name in ("bin", "lib", "sbin"):
        if (folder / name).is_dir():
            (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
            run("cp", "-a", f"{folder / name}/.", str(folder / "usr" / name))
            shutil.rmtree(folder / name)
