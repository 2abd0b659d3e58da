"""What a node of a cluster that is made here needs of its host, on a small kernel in a folder."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.main import perform
from components.hosts.program.membership import CONFIG_FILE, JOURNAL_FILE, KUBELET_CONFIG
from components.hosts.program.places import DOCUMENT_FILE
from components.hosts.program.steps.kubernetes_kernel import FILES
from components.hosts.program.steps.kubernetes_packages import KEY_FILES, LIST_FILES
from components.hosts.records import target_fields
from stacks.lab import Lab
from tests.components.hosts.conftest import KEY, KEY_DEARMORED
from tests.components.hosts.kube_kernel import BRIDGED, CA, FSTAB, KilledError, KubeHost
from tests.labs import made_here
from tests.messages import states

TOKEN = "abcdef.0123456789abcdef"
OURS = ("swap", "kubernetes_kernel", "kubernetes_packages", "kubelet_service", "kubelet_node_ip", "crictl")
DIGEST = hashlib.sha256(b"lab").hexdigest()


@pytest.fixture(params=["debian", "rhel"])
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> KubeHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return KubeHost(tmp_path, getattr(request, "param", "debian"))


def document(node: int = 0, **bootstrap: Any) -> dict[str, Any]:
    lab = Lab.model_validate_json(json.dumps(made_here(**bootstrap)))
    return host_document(lab, lab.nodes[node])


def run(verb: str, machine: KubeHost, given: dict[str, Any]) -> dict[str, Any]:
    return perform(verb, machine, json.dumps(given), b"program")


def ours(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key in OURS}


def made(machine: KubeHost, given: dict[str, Any]) -> None:
    assert run("apply", machine, given)["failed"] is None
    run("confirm", machine, given)
    assert ours(run("probe", machine, given)["fields"]) == ours(target_fields(given))


def test_a_lab_with_a_cluster_of_its_own_asks_nothing_of_hosts(lab):
    given = host_document(lab, lab.nodes[0])

    assert "kubernetes" not in given
    assert ours(target_fields(given)) == {}


def test_a_control_plane_without_pfs_becomes_what_its_document_says(machine, repository):
    given = document(packages=repository)
    made(machine, given)

    assert machine.packages == {"kubeadm": "1.36.3", "kubectl": "1.36.3", "kubelet": "1.36.3"}
    assert target_fields(given)["kubernetes_packages"] == "1.36.3 held"
    assert not [field for field in target_fields(given) if "rdma" in field]


def test_the_files_are_exactly_these(machine, repository):
    made(machine, document(packages=repository))
    written = {path: (machine.folder / path.lstrip("/")).read_text() for path in FILES}

    assert written == {
        "/etc/modules-load.d/rocelab-kubernetes.conf": "overlay\nbr_netfilter\n",
        "/etc/sysctl.d/61-rocelab-kubernetes.conf": "net/ipv4/ip_forward = 1\n"
        "net/bridge/bridge-nf-call-iptables = 1\nnet/bridge/bridge-nf-call-ip6tables = 1\n",
    }
    listed = machine.read(LIST_FILES[machine.family])
    if machine.family == "debian":
        assert listed == f"deb [signed-by={KEY_FILES['debian']}] {repository['url']} /"
        assert machine.held == {"kubeadm", "kubectl", "kubelet"}
    else:
        assert f"baseurl={repository['url']}\n" in listed
        assert "gpgcheck=1" in listed
        assert "excludepkgs=kubeadm kubectl kubelet" in listed, "or the next dnf upgrade takes the kubelet along"
    assert machine.content(KEY_FILES[machine.family]) == KEY
    assert machine.read("/etc/crictl.yaml").startswith("runtime-endpoint: unix:///run/containerd/containerd.sock")


KUBERNETES_KEY = "/etc/apt/keyrings/kubernetes-apt-keyring.gpg"


def official_entries(url: str, key: str = KUBERNETES_KEY) -> dict[str, str]:
    """The entry of "Installing kubeadm" (kubernetes.io), and other ways to write it that apt 2.6 takes as the same."""
    return {
        "/etc/apt/sources.list.d/kubernetes.list": f"# x\ndeb [signed-by={key}] {url} /\n",
        "/etc/apt/sources.list": "deb http://other.example/ trixie main\n"
        f"deb [ signed-by={key} ] {url.rstrip('/')} / # x\n",
        "/etc/apt/sources.list.d/k8s.sources": "Types: deb\nURIs: http://other.example/\nSuites: x\nSigned-By: /x\n\n"
        f"# x\nTypes: deb\nURIs:\n {url}\nSuites: /\nSigned-By:\n {key}\n",
    }


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubeHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return KubeHost(tmp_path, "debian")


@pytest.mark.parametrize("place", official_entries("http://x/"))
@pytest.mark.parametrize("key", [KEY, KEY_DEARMORED])
def test_an_entry_of_apt_for_the_same_repository_is_used_and_kept(debian, repository, place, key):
    """A node that was prepared by the instructions of Kubernetes: only the hold is missing."""
    text = official_entries(repository["url"])[place]
    debian.file(place, text)
    debian.put(KUBERNETES_KEY, key)
    debian.packages = {"kubeadm": "1.36.3", "kubectl": "1.36.3", "kubelet": "1.36.3"}
    debian.file(LIST_FILES["debian"], "deb [signed-by=/another] what an older release wrote beside it\n")
    given = document(packages=repository)

    made(debian, given)

    assert not debian.exists(LIST_FILES["debian"]), "apt refuses all sources while two entries of one name two keys"
    assert debian.held == {"kubeadm", "kubectl", "kubelet"}
    assert run("undo", debian, given)["failed"] is None
    assert (debian.folder / place.lstrip("/")).read_text() == text
    assert debian.content(KUBERNETES_KEY) == key
    assert debian.held == set()


@pytest.mark.parametrize("place", official_entries("http://x/"))
@pytest.mark.parametrize("key", [KUBERNETES_KEY, "-----BEGIN"])
def test_an_entry_of_apt_with_another_key_than_the_pinned_one_is_refused_by_its_file(debian, repository, place, key):
    debian.file(place, official_entries(repository["url"], key)[place])
    debian.put(KUBERNETES_KEY, b"another key")

    failed = run("apply", debian, document(packages=repository))["failed"]

    assert failed["step"] == "kubernetes_packages"
    assert states(failed["reason"], place, repository["url"], key)
    assert states(failed["hint"], place)
    assert debian.packages == {}
    assert not debian.exists(LIST_FILES["debian"])


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("kubernetes.list", "# deb [signed-by=/another] {} /\n"),
        ("kubernetes.list", "deb [signed-by=/another] {}more/ /\n"),
        ("kubernetes.list.save", "deb [signed-by=/another] {} /\n"),
        ("kubernetes.sources", "Types: deb\nURIs: {}\nSuites: /\nEnabled: no\nSigned-By: /another\n"),
    ],
)
def test_an_entry_that_apt_does_not_read_is_no_other_entry(debian, repository, name, form):
    debian.file(f"/etc/apt/sources.list.d/{name}", form.format(repository["url"]))

    made(debian, document(packages=repository))

    assert debian.exists(LIST_FILES["debian"])


def drifts(machine: KubeHost) -> dict[str, Any]:
    family = machine.family
    return {
        "swap": lambda: machine.run("swapon", "-a"),
        "kubernetes_kernel": lambda: machine.file("/proc/sys/net/ipv4/ip_forward", "0\n"),
        "kubernetes_packages": lambda: (machine.held.clear(), machine.remove(LIST_FILES[family])),
        "kubelet_service": lambda: setattr(machine, "kubelet_at_boot", False),
        "kubelet_node_ip": lambda: machine.remove(
            "/etc/default/kubelet" if family == "debian" else "/etc/sysconfig/kubelet"
        ),
        "crictl": lambda: machine.remove("/etc/crictl.yaml"),
    }


def test_each_drifted_field_is_seen_alone_and_put_back(machine, repository):
    given = document(packages=repository)
    made(machine, given)
    for field in OURS:
        drifts(machine)[field]()

        seen = ours(run("probe", machine, given)["fields"])
        assert [key for key, value in seen.items() if value != target_fields(given)[key]] == [field]

        made(machine, given)


def test_a_line_of_swap_in_fstab_is_drift_too(machine, repository):
    given = document(packages=repository)
    made(machine, given)
    machine.file("/etc/fstab", "/swapfile none swap sw 0 0\n")

    assert run("probe", machine, given)["fields"]["swap"] == "/swapfile in /etc/fstab"


def test_the_undo_gives_swap_settings_and_holds_back_and_keeps_packages(machine, repository):
    given = document(packages=repository)
    made(machine, given)
    assert run("undo", machine, given)["failed"] is None

    assert (machine.folder / "etc/fstab").read_text() == FSTAB
    assert "/dev/vda2" in machine.read("/proc/swaps")
    assert machine.read("/proc/sys/net/ipv4/ip_forward") == "0"
    assert machine.packages, "packages stay"
    assert machine.held == set()
    assert machine.kubelet_at_boot is False
    for path in (*FILES, *LIST_FILES.values(), *KEY_FILES.values(), "/etc/crictl.yaml", "/etc/default/kubelet"):
        assert not machine.exists(path), path
    assert not [line for line in machine.commands if "reset" in line], "it was in no cluster of ours"


def test_other_arguments_of_the_kubelet_stay(machine, repository):
    place = "/etc/default/kubelet" if machine.family == "debian" else "/etc/sysconfig/kubelet"
    text = 'HTTP_PROXY=http://proxy:3128\nKUBELET_EXTRA_ARGS="--v=4 --node-ip=10.10.11.1"\n'
    machine.file(place, text)
    given = document(packages=repository)
    made(machine, given)

    words = "--v=4 --node-ip=192.168.7.1 --address=192.168.7.1"
    expected = f'HTTP_PROXY=http://proxy:3128\nKUBELET_EXTRA_ARGS="{words}"'
    assert machine.read(place) == expected
    assert "systemctl try-restart kubelet.service" in machine.commands

    run("undo", machine, given)
    assert (machine.folder / place.lstrip("/")).read_text() == text


def test_a_kubelet_that_listens_on_rails_too_is_seen_and_bound_to_its_address(machine, repository):
    given = document(packages=repository)
    made(machine, given)
    place = "/etc/default/kubelet" if machine.family == "debian" else "/etc/sysconfig/kubelet"
    machine.file(place, 'KUBELET_EXTRA_ARGS="--node-ip=192.168.7.1 --addressless=1"\n')

    found = run("probe", machine, given)["fields"]["kubelet_node_ip"]

    assert states(found, "192.168.7.1", "all")
    made(machine, given)
    words = "--addressless=1 --node-ip=192.168.7.1 --address=192.168.7.1"
    assert machine.read(place) == f'KUBELET_EXTRA_ARGS="{words}"', "another option that begins alike stays"


def test_another_key_than_the_pinned_one_installs_nothing(machine, repository):
    result = run("apply", machine, document(packages={**repository, "key_sha256": "0" * 64}))

    assert result["failed"]["step"] == "kubernetes_packages"
    assert machine.packages == {}


def test_preinstalled_means_that_another_version_is_reported_and_not_touched(machine):
    machine.packages = {"kubeadm": "1.35.2", "kubelet": "1.35.2"}
    result = run("apply", machine, document())

    assert result["failed"]["step"] == "kubernetes_packages"
    assert states(result["failed"]["reason"], "1.36.3", "1.35.2")
    assert not [line for line in machine.commands if "install" in line.split()]

    machine.packages = {"kubeadm": "1.36.3", "kubelet": "1.36.3"}
    made(machine, document())


@pytest.mark.parametrize(("ours", "step"), [(True, "upgrade"), (False, "kubernetes_packages")])
def test_a_node_that_has_joined_is_not_upgraded_by_its_packages(machine, repository, ours, step):
    made(machine, document(packages=repository))
    machine.file(KUBELET_CONFIG, "server: https://192.168.7.1:6443\n")
    if not ours:
        machine.remove(DOCUMENT_FILE)
    machine.commands.clear()
    result = run("apply", machine, document(version="1.36.4", packages=repository))

    assert result["failed"]["step"] == step
    assert "kubeadm upgrade" in result["failed"]["hint"]
    assert states(result["failed"]["hint"], "1.36.3")
    assert machine.packages["kubelet"] == "1.36.3"
    assert not [line for line in machine.commands if "install" in line.split()]


# -- the cluster verbs


@pytest.fixture
def with_kubeadm(machine: KubeHost) -> KubeHost:
    machine.packages = {"kubeadm": "1.36.3", "kubelet": "1.36.3"}
    return machine


def asked(**values: Any) -> dict[str, Any]:
    return {**document(), "kubeadm": {"config": f"token: {TOKEN}\n", **values}}


def test_the_configuration_is_for_root_alone_and_gone_afterwards(with_kubeadm):
    machine = with_kubeadm
    result = run("cluster-join", machine, asked())

    assert machine.configs == [("join --config", f"token: {TOKEN}\n")]
    assert machine.modes == [0o600]
    assert not machine.exists(CONFIG_FILE)
    assert result["facts"]["kubernetes"]["role"] == "worker"
    assert result["facts"]["kubernetes"]["ca"] == DIGEST
    assert result["facts"]["ca_pem"] == CA.strip()


def test_no_secret_is_an_argument_or_part_of_an_answer(with_kubeadm):
    machine = with_kubeadm
    answers = [run(verb, machine, asked(token_id="abcdef")) for verb in ("cluster-init", "cluster-invite")]
    key = "f" * 64
    machine.run("kubeadm", "reset")
    machine.kubeadm_fails = f"[ERROR X] token {TOKEN} with key {key} is not known\n"
    machine.remove(JOURNAL_FILE)
    answers.append(run("cluster-join", machine, asked()))

    assert "[ERROR X]" in answers[-1]["failed"]["reason"]
    for text in (json.dumps(answers), "\n".join(machine.commands)):
        assert TOKEN not in text
        assert key not in text


def test_a_second_join_does_nothing(with_kubeadm):
    machine = with_kubeadm
    run("cluster-join", machine, asked())
    machine.commands.clear()

    assert run("cluster-join", machine, asked())["changed"] == []
    assert machine.commands == []


def test_what_a_killed_run_left_half_done_is_cleaned_and_done_again(with_kubeadm):
    machine = with_kubeadm
    machine.dies_in_kubeadm = True
    with pytest.raises(KilledError):
        run("cluster-init", machine, asked())
    assert not machine.exists(CONFIG_FILE)
    machine.dies_in_kubeadm = False
    machine.commands.clear()

    result = run("cluster-init", machine, asked())

    assert result["changed"] == ["kubeadm reset", "kubeadm init"]
    assert result["facts"]["kubernetes"]["role"] == "control_plane"
    assert result["facts"]["kubernetes"]["unfinished"] == ""


def test_a_host_without_kubeadm_fails_and_keeps_no_trace_of_the_attempt(machine):
    result = run("cluster-join", machine, asked())

    assert states(result["failed"]["reason"], "kubeadm")
    assert not machine.exists(JOURNAL_FILE), "an undo would try to reset what never was"


def test_a_foreign_kubeadm_configuration_is_not_reset(machine):
    machine.file("/etc/kubernetes/bootstrap-kubelet.conf", "x")
    result = run("cluster-join", machine, asked())

    assert states(result["failed"]["reason"], "kubeadm", "this lab")
    assert not [line for line in machine.commands if "kubeadm" in line]


def test_a_node_that_leaves_is_reset_and_one_that_others_made_is_not(machine, repository):
    given = document(packages=repository)
    made(machine, given)
    run("cluster-join", machine, {**given, "kubeadm": {"config": "kind: JoinConfiguration\n"}})
    machine.file("/etc/cni/net.d/10-flannel.conflist", "{}")
    run("undo", machine, given)

    assert "kubeadm reset -f --cri-socket unix:///run/containerd/containerd.sock" in machine.commands
    assert not machine.exists(KUBELET_CONFIG)
    assert not machine.exists("/etc/cni/net.d/10-flannel.conflist")
    assert not machine.exists(JOURNAL_FILE)

    machine.commands.clear()
    machine.file(KUBELET_CONFIG, "server: https://10.0.0.1:6443\n")
    made(machine, given)
    run("undo", machine, given)
    assert not [line for line in machine.commands if "reset" in line]


def test_a_section_that_leaves_the_lab_leaves_the_node_in_its_cluster(machine, repository):
    given = document(packages=repository)
    made(machine, given)
    run("cluster-join", machine, {**given, "kubeadm": {"config": "kind: JoinConfiguration\n"}})
    without = {key: value for key, value in given.items() if key != "kubernetes"}
    assert run("apply", machine, without)["failed"] is None

    assert machine.exists(KUBELET_CONFIG)
    assert not machine.exists("/etc/crictl.yaml")


def test_a_kernel_that_has_br_netfilter_built_in_is_asked_to_load_nothing(machine):
    """It has the settings and no folder under /sys/module; modprobe would end with an error there."""
    for key in BRIDGED:
        machine.file(f"/proc/sys/{key}", "0\n")
    machine.folder.joinpath("sys/module/overlay").mkdir(parents=True)
    given = document()

    report = run("apply", machine, {**given, "only": ["kubernetes_kernel"]})

    assert report["failed"] is None
    assert not [line for line in machine.commands if line.startswith("modprobe")]
    assert run("probe", machine, given)["fields"]["kubernetes_kernel"] == "set"
