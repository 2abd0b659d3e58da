"""Command lines of the cluster's processes."""

import re

import pytest

from simulator.plane import components


@pytest.fixture
def every(layout, lab):
    return [
        components.etcd(layout),
        components.apiserver(layout, lab),
        components.controller_manager(layout),
        components.scheduler(layout),
        components.kwok(layout, lab),
    ]


def test_every_address_in_a_command_line_is_on_the_loopback(every, layout):
    for component in every:
        text = " ".join(flag for flag in component.command if "cidr" not in flag and "cluster-ip-range" not in flag)
        addresses = re.findall(r"\d+\.\d+\.\d+\.\d+", text)
        assert set(addresses) <= {layout.address}, component.name
        if component.port is None:
            assert "--secure-port=0" in component.command, f"{component.name} would listen on every interface"
        else:
            assert addresses, component.name


def test_the_users_environment_does_not_reach_a_process(every, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("KUBECONFIG", "/home/user/.kube/config")

    assert all(component.env.keys() <= {"HOME", "PATH", "GOGC"} for component in every)


def test_rights_are_checked_and_no_request_is_anonymous(layout, lab):
    flags = components.apiserver(layout, lab).command

    assert {"--authorization-mode=RBAC", "--anonymous-auth=false"} <= set(flags)
    assert not [flag for flag in flags if flag.startswith("--disable-admission-plugins")]


def test_the_labs_own_subnets_are_used(layout, lab):
    assert f"--service-cluster-ip-range={lab.cluster.service_subnet}" in components.apiserver(layout, lab).command
    assert f"--cidr={lab.cluster.pod_subnet}" in components.kwok(layout, lab).command


def test_no_secret_is_in_a_command_line(every, layout):
    text = " ".join(flag for component in every for flag in component.command)

    assert "PRIVATE KEY" not in text
    assert str(layout.folder / "pki") in text, "keys come by file"


def test_another_build_of_a_program_is_another_command(layout):
    layout.binaries.mkdir()
    for build in ("one", "two"):
        (layout.binaries / build).touch()
    link = layout.binaries / "plane"

    link.symlink_to("one")
    first = components.scheduler(layout)
    link.unlink()
    link.symlink_to("two")

    assert components.scheduler(layout) != first, "sim up starts a process again when its build has changed"
