"""Making one cluster of hosts that are fresh, half joined, silent, of another cluster, or killed in the middle."""

import asyncio
import re
from pathlib import Path

import pytest

from components.hosts.bootstrap.join import CA_FACT
from components.hosts.program.membership import ADMIN_CONFIG, CA_FILE, JOURNAL_FILE, KUBELET_CONFIG
from components.hosts.repair import Outcome, observe
from tests.components.hosts.bootstrap.machines import Machines, certificate
from tests.components.hosts.kube_kernel import KilledError
from tests.messages import states

TOKEN = re.compile(r"^[a-z0-9]{6}\.[a-z0-9]{16}$")
READY = {"status": "ready"}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return Machines(tmp_path)


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return Machines(tmp_path, planes=3)


def verbs(machines: Machines, verb: str) -> list[str]:
    return [name for done, name in machines.calls if done == verb]


@pytest.mark.row("A 10a", "A 184-194", "B 410-420")
def test_fresh_hosts_become_one_cluster(machines):
    outcome = machines.unite()

    assert outcome.results == {"cp01": READY, "gpu01": READY, "gpu02": READY}
    assert machines.plane.members == ["cp01", "gpu01", "gpu02"]
    first, *others = machines.said
    assert states(first, "cp01", "creates")
    assert [states(line, name, "joins", "worker") for line, name in zip(others, ("gpu01", "gpu02"), strict=True)] == [
        True,
        True,
    ]


def test_a_second_run_asks_and_does_nothing(machines):
    first = machines.unite()
    machines.calls.clear()

    assert machines.unite(known=first.facts).results == first.results
    assert machines.calls == []


def test_tokens_live_for_one_run(machines):
    machines.unite()

    assert all(TOKEN.match(token) for token in machines.plane.had)
    assert len(set(machines.plane.had)) == len(machines.plane.had) == 2, "one made the cluster, one let hosts in"
    assert machines.plane.tokens == set(), "what is over is taken back"


def test_no_secret_is_printed_kept_or_an_argument(three):
    outcome = three.unite()
    everything = [str(outcome), *three.said]
    everything += [line for machine in three.machines.values() for line in machine.commands]
    keys = three.plane.certificate_keys - {""}

    assert three.plane.had
    assert keys
    for secret in (*three.plane.had, *keys):
        assert not [text for text in everything if secret in text]
        assert [text for text in three.sent if secret in text], "it has to come somehow: on stdin"


def test_control_planes_join_one_by_one_and_workers_side_by_side(three):
    three.unite()

    joins = verbs(three, "cluster-join")
    assert joins[:2] == ["cp02", "cp03"]
    assert three.plane.members[:3] == ["cp01", "cp02", "cp03"]
    assert three.most_at_work == 2, "the two workers"


def test_the_first_control_plane_that_fails_stops_the_others_but_not_the_workers(three):
    three.machines["cp02"].kubeadm_fails = "[ERROR Port-6443]: Port 6443 is in use\n"
    outcome = three.unite()

    assert "[ERROR Port-6443]" in outcome.results["cp02"]["reason"]
    assert outcome.results["cp02"]["step"] == "join"
    assert "cp02" in outcome.results["cp03"]["reason"]
    assert outcome.results["gpu01"] == outcome.results["gpu02"] == READY
    assert three.plane.tokens == set()


def test_what_failed_is_looked_at_by_the_next_run_and_done_then(three):
    three.machines["cp02"].kubeadm_fails = "[ERROR Port-6443]: Port 6443 is in use\n"
    outcome = three.unite()
    assert outcome.records["cp02"].trouble
    assert outcome.records["cp01"].trouble == ""

    three.machines["cp02"].kubeadm_fails = ""
    three.calls.clear()
    assert set(map(str, three.unite(known=outcome.facts).results.values())) == {str(READY)}
    assert verbs(three, "cluster-join") == ["cp02", "cp03"]
    assert "kubeadm reset" in "\n".join(three.machines["cp02"].commands), "what was left half done goes first"


@pytest.mark.parametrize("victim", ["cp01", "gpu01"])
def test_a_run_that_is_killed_in_the_middle_is_finished_by_the_next(machines, victim):
    machines.machines[victim].dies_in_kubeadm = True
    with pytest.raises(KilledError):
        machines.unite()
    machines.machines[victim].dies_in_kubeadm = False

    outcome = machines.unite()

    assert set(map(str, outcome.results.values())) == {str(READY)}
    assert "kubeadm reset" in "\n".join(machines.machines[victim].commands)
    assert len(set(machines.plane.members)) == 3


def test_a_worker_that_was_reset_by_hand_joins_again(machines):
    first = machines.unite()
    for path in (KUBELET_CONFIG, CA_FILE, JOURNAL_FILE):
        machines.machines["gpu02"].remove(path)
    machines.calls.clear()
    machines.unite(known=first.facts)

    assert verbs(machines, "cluster-join") == ["gpu02"]
    assert verbs(machines, "cluster-init") == []


def test_a_host_of_another_cluster_is_named_and_left(machines):
    host = machines.machines["gpu02"]
    host.file(KUBELET_CONFIG, "server: https://10.9.9.9:6443\n")
    host.file(CA_FILE, certificate("other"))
    outcome = machines.unite()

    assert "another cluster (https://10.9.9.9:6443" in outcome.results["gpu02"]["reason"]
    assert outcome.results["gpu01"] == READY
    assert ("cluster-join", "gpu02") not in machines.calls


def test_with_a_silent_control_plane_nothing_is_created_and_no_node_is_invited(machines):
    machines.silent = {"cp01"}
    outcome = machines.unite()

    assert machines.calls == []
    assert outcome.results["cp01"]["status"] == "unreachable"
    assert "cp01" not in outcome.facts, "what was known of it must not be replaced by less"
    assert "cp01" in outcome.results["gpu01"]["reason"]


def test_a_lost_cluster_is_not_created_again(machines):
    first = machines.unite()
    for path in (KUBELET_CONFIG, ADMIN_CONFIG, CA_FILE, JOURNAL_FILE, "/etc/kubernetes/manifests/kube-apiserver.yaml"):
        machines.machines["cp01"].remove(path)
    machines.calls.clear()
    outcome = machines.unite(known=first.facts)

    assert machines.calls == []
    assert outcome.results["cp01"]["step"] == "join"
    assert states(outcome.results["cp01"]["reason"], first.facts["cp01"][CA_FACT][:12])
    assert states(outcome.results["cp01"]["hint"], "/etc/kubernetes/pki", "pulumi destroy")
    assert outcome.facts["cp01"][CA_FACT] == first.facts["cp01"][CA_FACT], "what is forgotten cannot be protected"


def test_a_host_that_needs_a_fix_first_does_not_join(machines):
    outcome = Outcome(results={"gpu02": {"status": "failed", "step": "vfs", "reason": "in use"}})
    machines.unite(outcome)

    assert outcome.results["gpu02"]["step"] == "vfs"
    assert verbs(machines, "cluster-join") == ["gpu01"]


def test_a_cluster_that_cannot_be_made_stops_there_with_the_reason(machines):
    machines.machines["cp01"].kubeadm_fails = "[ERROR NumCPU]: the number of available CPUs 1 is less than 2\n"
    outcome = machines.unite()

    assert "[ERROR NumCPU]" in outcome.results["cp01"]["reason"]
    assert "cp01" in outcome.results["gpu01"]["reason"]
    assert [verb for verb, _ in machines.calls] == ["cluster-init"]


def test_a_control_plane_that_cannot_invite_is_the_reason_of_who_waits(machines):
    machines.unite(gpu02="drained")
    machines.machines["cp01"].kubeadm_fails = "error: etcdserver: no leader\n"
    outcome = machines.unite()

    assert outcome.results["cp01"] == READY
    assert "cp01" in outcome.results["gpu02"]["reason"]
    assert "no leader" in outcome.results["gpu02"]["reason"]


def test_another_certificate_than_the_pinned_one_is_not_believed(machines):
    machines.unite(gpu02="drained")
    machines.plane.hashes = {"sha256:" + "0" * 64}
    outcome = machines.unite()

    assert outcome.results["gpu02"]["step"] == "join"
    assert "public keys" in outcome.results["gpu02"]["reason"]


def test_a_refresh_sees_a_node_that_was_taken_out_by_hand(machines):
    machines.unite()
    records = machines.records()
    whole = asyncio.run(observe(machines, records, {}))  # type: ignore[arg-type]
    for path in (KUBELET_CONFIG, CA_FILE, JOURNAL_FILE):
        machines.machines["gpu02"].remove(path)
    seen = asyncio.run(observe(machines, records, {}))  # type: ignore[arg-type]

    assert {record.trouble for record in whole.values()} == {""}
    assert [name for name, record in seen.items() if record.trouble] == ["gpu02"]
