"""containerd and the limit of pinned memory on a host of each family."""

import pytest

from components.hosts.program.steps.memlock import DROP_IN, LOGINS
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.vendor_lab import applied, asks, commands_with, unchanged_by_a_second_run
from tests.messages import states

RUNTIME = {"containerd": {"source": "packaged", "version": "1.7.27", "packages": ["containerd.io"]}, "memlock": "keep"}


def test_containerds_configuration_is_ours_until_undo(host, lab):
    document = asks(lab, runtime=RUNTIME)

    assert applied(host, document)["failed"] is None
    assert "SystemdCgroup = true" in host.read("/etc/containerd/config.toml")
    assert commands_with(host, "restart") == ["systemctl restart containerd.service"]
    unchanged_by_a_second_run(host, document)
    host.file("/etc/containerd/config.toml", "version = 2\n# by hand\n")
    assert differing(host, document) == {"containerd_config": "another"}
    assert applied(host, document)["failed"] is None
    assert run("undo", host, document)["failed"] is None
    assert host.content("/etc/containerd/config.toml") == b"version = 2\n"


def test_another_containerd_is_replaced_with_leave_only(host, lab):
    host.offered = {
        "containerd.io": lambda: setattr(host, "containerd", "github.com/containerd/containerd/v2 v2.1.4 75")
    }
    newer = {**RUNTIME["containerd"], "version": "2.1.4"}

    failed = run("apply", host, asks(lab, runtime={**RUNTIME, "containerd": newer}))["failed"]

    assert failed["step"] == "runtime"
    assert states(failed["reason"], "1.7.27", "2.1.4")
    document = asks(lab, runtime={**RUNTIME, "containerd": {**newer, "replace": True}})
    assert applied(host, document)["failed"] is None
    assert "version = 3" in host.read("/etc/containerd/config.toml")


def test_memlock_is_lifted_without_restart_and_put_back(host, lab):
    document = asks(lab, runtime={})
    assert differing(host, document)["memlock"] == "8388608 bytes"

    assert applied(host, document)["failed"] is None

    assert host.read(DROP_IN) == "[Service]\nLimitMEMLOCK=infinity"
    assert host.reloads == 1
    assert commands_with(host, "restart") == []
    unchanged_by_a_second_run(host, document)
    host.limit("65536", "65536")
    assert differing(host, document) == {"memlock": "65536 bytes"}
    applied(host, document)
    assert run("undo", host, document)["failed"] is None
    assert not host.exists(DROP_IN)
    assert not host.exists(LOGINS)
    assert "8388608" in host.read("/proc/812/limits")


def test_systemd_is_not_reloaded_while_a_container_runs(host, lab):
    host.file("/run/containerd/io.containerd.runtime.v2.task/k8s.io/one/init.pid", "1")

    assert applied(host, asks(lab, runtime={}))["failed"] is None
    assert host.reloads == 0
    assert "unlimited" in host.read("/proc/812/limits")


def test_a_host_without_containerd_gets_the_limit_for_later(host, lab):
    host.containerd = ""
    document = asks(lab, runtime={})

    assert applied(host, document)["failed"] is None
    assert differing(host, document) == {}


def test_what_the_lab_no_longer_asks_for_is_undone(host, lab):
    applied(host, asks(lab, runtime={}))

    assert run("apply", host, asks(lab))["failed"] is None
    assert not host.exists(DROP_IN)


DEBIAN = """
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
"""
"""A section of Debian's own /etc/containerd/config.toml, as people published it; containerd 1.7 dumps it so."""
UPSTREAM_2 = """
    [plugins.'io.containerd.cri.v1.runtime'.cni]
      bin_dir = ''
      bin_dirs = ['/opt/cni/bin']
      conf_dir = '/etc/cni/net.d'
"""
"""Of containerd 2.1's documentation (docs/cri/config.md): what `containerd config default` prints."""


def warned(host, document):
    return [text for text in run("probe", host, document)["facts"].get("warnings", []) if "CNI" in text]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (DEBIAN, ["/usr/lib/cni", "/opt/cni/bin"]),
        (DEBIAN.replace("/usr/lib/cni", "/opt/cni/bin"), []),
        (UPSTREAM_2, []),
        (UPSTREAM_2.replace("/opt/cni/bin", "/usr/lib/cni"), ["/usr/lib/cni"]),
        (UPSTREAM_2.replace("'/opt/cni/bin'", "'/usr/lib/cni', '/opt/cni/bin'"), []),
        (UPSTREAM_2.replace("net.d", "other.d"), ["/etc/cni/other.d"]),
        ("", []),
    ],
)
def test_a_containerd_that_is_kept_and_never_calls_multus_is_named_with_the_remedy(host, lab, settings, named):
    host.file("/etc/containerd/config.toml", settings)
    for document in (asks(lab), asks(lab, runtime={})):
        found = warned(host, document)

        assert len(found) == (1 if named else 0)
        assert all(states(text, *named) for text in found)
        assert all(
            "/etc/containerd/config.toml" in text and "runtime.containerd.source: packaged" in text for text in found
        )


def test_a_containerd_of_ours_has_its_own_defaults_and_is_not_asked(host, lab):
    host.file("/etc/containerd/config.toml", DEBIAN)
    ours = {"containerd": {"source": "packaged", "version": "1.7.27", "packages": ["containerd.io"]}}

    assert warned(host, asks(lab, runtime=ours)) == []


def test_a_drop_in_behind_the_file_decides(host, lab):
    host.file("/etc/containerd/config.toml", DEBIAN)
    host.file("/etc/containerd/conf.d/50-cni.toml", UPSTREAM_2)

    assert warned(host, asks(lab)) == []
