"""Images that support PVRDMA and images that do not, as folders, tars and OCI layouts; and the repair."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from components.cli.app import main
from components.jobs.image.pvrdma import client_dockerfile, judge, read_image, repair_dockerfile
from components.jobs.image.pvrdma_inside import REFUSED, at_build, at_start, refusal_in
from stacks.base import LabError
from stacks.guests import BitfusionClient
from tests.components.jobs.images import DEBIAN, HERE, LIBRARY, PROVIDERS, Tree, as_folder
from tests.conftest import ROOT
from tests.messages import states, stating

GOLDEN = ROOT / "tests" / "golden" / "jobs"
BASE = "nvcr.io/nvidia/tensorrt:20.12-py3"

NGC: Tree = {
    "etc/os-release": b'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="20.04"\nVERSION_CODENAME=focal\nUBUNTU_CODENAME=focal\n',
    "var/lib/dpkg/status": (HERE / "written" / "ngc-20.12-status").read_bytes(),
    "usr/lib/x86_64-linux-gnu/libibverbs.so.1.11.30.0": LIBRARY,
    "etc/libibverbs.d/mlx5.driver": b"driver mlx5\n",
    f"{PROVIDERS}/libmlx5-rdmav34.so": b"",
    "opt/mellanox/DEBS/5.1-2.4.6/libibverbs1_51mlnx1-1.51246_amd64.deb": b"",
    "opt/mellanox/DEBS/add_mofed_version.sh": b"",
}


def tar_of(tree: Tree, prefix: str = "") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in tree.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return target.getvalue()


def as_tar(tree: Tree, place: Path) -> Path:
    place.mkdir(parents=True)
    (place / "root.tar").write_bytes(tar_of(tree, "./"))
    return place / "root.tar"


def as_layout(layers: list[Tree], place: Path) -> Path:
    """What skopeo writes: blobs under their digests, layers gzipped, an index with one manifest."""
    blobs = place / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    manifest = {"schemaVersion": 2, "layers": [blob(gzip.compress(tar_of(layer))) for layer in layers]}
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode())]}
    (place / "index.json").write_text(json.dumps(index))
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return place


FORMS = {
    "folder": as_folder,
    "tar": as_tar,
    "layout": lambda tree, place: as_layout([tree], place),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_distribution_s_libraries_speak_it_in_whichever_form_the_image_comes(tmp_path, form):
    verbs = judge(read_image(FORMS[form](DEBIAN, tmp_path / "image")))

    assert verbs.reasons == ()
    assert (verbs.distribution, verbs.codename) == ("debian", "bookworm")
    assert verbs.packages["ibverbs-providers"] == "44.0-2"


@pytest.mark.row("C 355-376")
@pytest.mark.parametrize("form", FORMS)
def test_an_image_with_the_vendor_s_libraries_is_refused_with_their_names(tmp_path, form):
    verbs = judge(read_image(FORMS[form](NGC, tmp_path / "image")))

    assert verbs.vendor == ("ibverbs-providers", "ibverbs-utils", "libibverbs-dev", "libibverbs1")
    assert "libibverbs1 51mlnx1-1.51246" in verbs.reasons[0]
    assert states(verbs.reasons[1], "ibverbs-providers", "vmw_pvrdma")
    assert "perftest" not in verbs.packages, "it was removed, and only its configuration is left"


def test_the_repair_is_the_guide_s_with_names_and_codename_from_the_image_itself(tmp_path):
    verbs = judge(read_image(as_folder(NGC, tmp_path / "image")))

    text = repair_dockerfile(BASE, verbs)

    golden = GOLDEN / "pvrdma-repair.Dockerfile"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert (
        "apt-get purge --yes --allow-change-held-packages ibverbs-providers ibverbs-utils libibverbs-dev libibverbs1"
        in text
    )
    assert "--target-release focal rdma-core libibverbs1 ibverbs-providers" in text
    assert "rm -rf /opt/mellanox/DEBS" in text, "or the entrypoint puts them back"


@pytest.mark.row("C 384-411", "C 398-405")
def test_the_guide_s_whole_image_has_samples_and_client_too(tmp_path):
    package = {"url": "https://mirror.example/bitfusion-client-ubuntu2004_3.0.1-4_amd64.deb", "sha256": "0" * 64}
    client = BitfusionClient.model_validate({"nodes": ["bf01"], "package": package, "servers": ["192.168.30.231"]})

    text = client_dockerfile(BASE, judge(read_image(as_folder(NGC, tmp_path / "image"))), client)

    golden = GOLDEN / "bitfusion-client.Dockerfile"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.row("C 384-411")
def test_what_the_repair_does_makes_the_same_image_good(tmp_path):
    """Its layer as apt would leave it: vendor's files whited out, the distribution's in their place."""
    layer: Tree = {
        "var/lib/dpkg/status": DEBIAN["var/lib/dpkg/status"],
        "etc/libibverbs.d/vmw_pvrdma.driver": b"driver vmw_pvrdma\n",
        f"{PROVIDERS}/libvmw_pvrdma-rdmav34.so": b"",
        "opt/mellanox/.wh.DEBS": b"",
    }

    verbs = judge(read_image(as_layout([NGC, layer], tmp_path / "image")))

    assert verbs.reasons == ()
    assert not verbs.brings_vendor_packages


def test_a_layer_can_hide_a_whole_folder(tmp_path):
    layer: Tree = {f"{PROVIDERS}/.wh..wh..opq": b""}

    verbs = judge(read_image(as_layout([DEBIAN, layer], tmp_path / "image")))

    assert states(verbs.reasons[0], "library", "missing")


def test_a_provider_of_another_abi_is_no_provider(tmp_path):
    tree = {**DEBIAN, "usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0": LIBRARY.replace(b"34", b"57")}

    verbs = judge(read_image(as_folder(tree, tmp_path / "image")))

    [reason] = verbs.reasons
    assert states(reason, "rdmav57", "libvmw_pvrdma-rdmav34.so")


def test_an_image_without_verbs_is_refused_in_one_line(tmp_path):
    tree = {**DEBIAN, "var/lib/dpkg/status": b"Package: libc6\nStatus: install ok installed\nVersion: 2.36\n"}

    [reason] = judge(read_image(as_folder(tree, tmp_path / "image"))).reasons
    assert states(reason, "libibverbs1", "RDMA")


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({**DEBIAN, "etc/os-release": b"ID=rocky\n"}, "rocky"),
        ({"etc/hostname": b"x"}, "unknown distribution"),
    ],
)
def test_what_cannot_be_judged_is_not_judged(tmp_path, tree, said):
    with pytest.raises(LabError, check=stating(said, "Debian", "Ubuntu")):
        judge(read_image(as_folder(tree, tmp_path / "image")))


def test_a_place_that_is_no_image_says_what_would_be_one(tmp_path):
    (tmp_path / "saved.tar").write_bytes(tar_of({"manifest.json": b"[]"}))

    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(LabError, match="OCI layout"):
            read_image(place)
    with pytest.raises(LabError, match="docker export"):
        read_image(tmp_path / "saved.tar")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_an_image_that_is_cut_off_is_bad_input(tmp_path, capsys, compress, share):
    noise = {"usr/share/noise": os.urandom(100_000)}  # does not compress, so that the cut is inside of a file
    whole = compress(tar_of({**DEBIAN, **noise}))
    (tmp_path / "cut.tar").write_bytes(whole[: int(len(whole) * share)])

    assert main(["image", "check", str(tmp_path / "cut.tar")]) == 2
    assert states(capsys.readouterr().err, tmp_path / "cut.tar", "cut off", "copy it again")


def test_a_damaged_image_is_bad_input(tmp_path, capsys):
    numbers = "".join(map(str, range(100_000))).encode()
    whole = bytearray(gzip.compress(tar_of({**DEBIAN, "usr/share/numbers": numbers}), mtime=0))
    whole[len(whole) // 2 :] = b"\xff" * (len(whole) // 2)
    (tmp_path / "bad.tar.gz").write_bytes(whole)

    assert main(["image", "check", str(tmp_path / "bad.tar.gz")]) == 2
    assert states(capsys.readouterr().err, tmp_path / "bad.tar.gz", "damaged", "copy it again")


@pytest.mark.parametrize("text", ["", "[]", '{"manifests": [{}]}', '{"layers": 1}', "\xff"])
def test_a_layout_with_a_damaged_index_is_bad_input(tmp_path, capsys, text):
    layout = as_layout([DEBIAN], tmp_path / "image")
    (layout / "index.json").write_text(text, encoding="latin-1")

    assert main(["image", "check", str(layout)]) == 2
    assert states(capsys.readouterr().err, layout / "index.json", "OCI", "copy the image again")


LINKS = {"usr/lib/x86_64-linux-gnu/libibverbs.so.1": LIBRARY}
"""What a root has beside the files that the check from outside reads."""
INSIDE = {
    "good": {**DEBIAN, **LINKS},
    "another ABI": {
        **DEBIAN,
        **{f"{PROVIDERS}.so.1{rest}": LIBRARY.replace(b"34", b"57") for rest in ("", ".14.44.0")},
    },
    "no provider": {name: content for name, content in {**DEBIAN, **LINKS}.items() if "libvmw_pvrdma" not in name},
    "no driver file": {name: content for name, content in {**DEBIAN, **LINKS}.items() if "vmw_pvrdma.d" not in name},
    "vendor's": {**NGC, **LINKS},
    "vendor's beside a provider": {**DEBIAN, **LINKS, "var/lib/dpkg/status": NGC["var/lib/dpkg/status"]},
    "none": {"etc/os-release": DEBIAN["etc/os-release"], "var/lib/dpkg/status": b""},
}


def run_inside(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    """As a recipe's RUN has it, with the packages that the root says it has."""
    environment = {"PATH": "/usr/bin:/bin", "DPKG_ADMINDIR": str(root / "var/lib/dpkg")}
    words = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.row("C 384-411")
@pytest.mark.parametrize("what", INSIDE)
def test_a_build_ends_well_for_the_images_alone_that_the_check_from_outside_lets_through(what, tmp_path):
    root = as_folder(INSIDE[what], tmp_path / "image")

    done = run_inside(root, " && ".join(("true", *at_build(str(root)))))

    assert (done.returncode == 0) == (what == "good"), done.stderr
    assert (judge(read_image(root)).reasons == ()) == (done.returncode == 0)
    assert done.returncode == 0 or REFUSED in done.stderr or "installed libibverbs1 51mlnx1" in done.stderr


@pytest.mark.parametrize("what", ["another ABI", "no provider", "no driver file", "vendor's"])
def test_a_rank_in_an_image_that_cannot_ends_at_once_and_says_so(what, tmp_path):
    root = as_folder(INSIDE[what], tmp_path / "image")

    done = run_inside(root, at_start(str(root)) + "echo trained")

    assert (done.returncode, done.stdout) == (1, "")
    assert refusal_in(f"[1,0]<stderr>: {done.stderr}").startswith(f"{REFUSED}: ")
    assert "rocelab image repair" in done.stderr


@pytest.mark.parametrize("what", ["good", "none"])
def test_a_rank_continues_where_the_image_passes(what, tmp_path):
    """A libibverbs of the image's own is in no place that this knows, and NCCL fails loudly without one."""
    root = as_folder(INSIDE[what], tmp_path / "image")

    done = run_inside(root, at_start(str(root)) + "echo trained")

    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")
    assert not refusal_in(done.stdout)


def test_links_out_of_an_unpacked_root_are_not_followed(tmp_path):
    secret = as_folder(DEBIAN, tmp_path / "elsewhere")
    image = tmp_path / "image"
    (image / "etc").mkdir(parents=True)
    (image / "etc/os-release").symlink_to(secret / "etc/os-release")
    (image / "var").symlink_to(secret / "var")

    with pytest.raises(LabError, check=stating("unknown distribution")):
        judge(read_image(image))


def test_the_command_reports_by_its_exit_code(tmp_path, capsys):
    good, bad = as_folder(DEBIAN, tmp_path / "good"), as_folder(NGC, tmp_path / "bad")

    assert main(["image", "check", str(good)]) == 0
    assert states(capsys.readouterr().out, "PVRDMA", "debian bookworm", "44.0-2")
    assert main(["image", "check", str(bad)]) == 1
    assert states(capsys.readouterr().out, "PVRDMA", "ibverbs-providers", "vmw_pvrdma")
    assert main(["image", "repair", str(bad), "--from", BASE]) == 0
    assert f"FROM {BASE}" in capsys.readouterr().out
