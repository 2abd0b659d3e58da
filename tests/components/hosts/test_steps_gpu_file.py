"""A GPU driver from a file of its own: NVIDIA's guest driver for vGPUs, which no repository has."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.hosts.document import host_document
from components.hosts.program.places import DEADLINE_S
from stacks.gpus import Gpu
from stacks.lab import Lab
from tests.components.hosts.host_runs import run
from tests.components.hosts.vendor_kernel import KERNEL, Done, VendorHost
from tests.components.hosts.vendor_lab import applied, asks, secure_boot_on, with_module_file
from tests.messages import states

NAME = "nvidia-linux-grid-570_570.124.06_amd64.deb"
TEXT = b"the vendor's package"


@pytest.fixture
def driver(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / NAME
    file.write_bytes(TEXT)
    package = {"url": file.as_uri(), "sha256": hashlib.sha256(TEXT).hexdigest()}
    return {"source": "packaged", "version": "570.124.06", "package": package}


def brings(host: VendorHost, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The file's module comes with its installation; which files were installed."""
    given: list[str] = []
    install = host._install

    def answer(names: list[str], simulated: bool) -> Done:
        if not any(name.startswith("/") for name in names):
            return install(names, simulated)
        if not simulated:
            given.extend(names)
            with_module_file(host, "570.124.06")
        return Done(0, "", "")

    monkeypatch.setattr(host, "_install", answer)
    return given


def test_the_file_is_fetched_checked_and_installed_with_the_kernel_s_headers(host, lab, driver, monkeypatch):
    given = brings(host, monkeypatch)
    (host.folder / f"lib/modules/{KERNEL}/build/Makefile").unlink()
    (host.folder / f"lib/modules/{KERNEL}/build").rmdir()
    headers = f"linux-headers-{KERNEL}" if host.family == "debian" else f"kernel-devel-{KERNEL}"
    document = asks(lab, gpu={"driver": driver, "gpudirect": "none"})

    assert applied(host, document)["failed"] is None

    assert given[0] == headers, "it builds its modules"
    assert [Path(path).read_bytes() for path in given[1:]] == [TEXT]
    assert given[1].endswith(NAME)
    assert run("probe", host, document)["fields"]["gpu_driver"] == "570.124.06"


def test_another_file_than_the_lab_names_is_not_installed(host, lab, driver, monkeypatch):
    given = brings(host, monkeypatch)
    other = {**driver, "package": {**driver["package"], "sha256": "0" * 64}}

    failed = run("apply", host, asks(lab, gpu={"driver": other, "gpudirect": "none"}))["failed"]

    assert failed["step"] == "gpu_driver"
    assert states(failed["reason"], "0" * 64)
    assert given == []


def test_secure_boot_refuses_a_file_that_builds_its_modules_before_anything_changes(host, lab, driver, monkeypatch):
    given = brings(host, monkeypatch)
    secure_boot_on(host)

    failed = run("apply", host, asks(lab, gpu={"driver": driver, "gpudirect": "none"}))["failed"]

    assert failed["step"] == "preflight"
    assert given == []


@pytest.mark.parametrize(
    ("driver_section", "told"),
    [
        (
            {"source": "keep", "package": {"url": "https://x.example/a.deb", "sha256": "0" * 64}},
            "package is for source",
        ),
        ({"source": "packaged"}, "packages is empty"),
    ],
)
def test_a_file_without_an_order_and_an_order_without_a_file_are_refused(driver_section, told):
    with pytest.raises(ValidationError, match=told):
        Gpu.model_validate({"driver": driver_section})


def test_a_driver_without_a_file_has_the_document_that_it_had(lab: Lab) -> None:
    gpu = Gpu.model_validate({"driver": {"source": "packaged", "packages": ["nvidia-open"]}})
    asked = lab.model_copy(update={"gpu": gpu})

    document = host_document(asked, asked.nodes[0])
    section = document["gpu"]
    assert isinstance(section, dict)
    assert isinstance(section["driver"], dict)
    assert "package" not in section["driver"]
    assert document["deadline_s"] > DEADLINE_S, "building takes its time"
