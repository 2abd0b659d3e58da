"""Who has to do what to become one cluster, and what is never done."""

from typing import Any

from components.hosts.bootstrap.decide import Decision, Membership, Situation, decide
from tests.messages import states

OURS, OTHER = "a" * 64, "b" * 64
NOTHING = Membership()


def plane(name: str, ca: str = OURS, **values: Any) -> Membership:
    server = "https://192.168.7.1:6443"
    return Membership(**{"role": "control_plane", "ca": ca, "server": server, "node": name, "remains": True, **values})


def worker(name: str, ca: str = OURS, **values: Any) -> Membership:
    return plane(name, ca, **{"role": "worker", **values})


def decided(memberships: dict[str, Membership], planes: int = 1, **values: Any) -> Decision:
    names = [*(f"cp0{i}" for i in range(1, planes + 1)), "gpu01", "gpu02"]
    roles: Any = {name: "control_plane" if name.startswith("cp") else "worker" for name in names}
    given = {"roles": roles, "memberships": memberships, "ready": frozenset(memberships), **values}
    return decide(Situation(**given))


def assert_lost(refusal):
    """The cluster of the state is on no control plane any more."""
    assert states(refusal["reason"], OURS[:12])
    assert states(refusal["hint"], "/etc/kubernetes/pki", "pulumi destroy")


def test_fresh_hosts_begin_a_cluster_on_the_first_control_plane():
    found = decided({"cp01": NOTHING, "cp02": NOTHING, "cp03": NOTHING, "gpu01": NOTHING, "gpu02": NOTHING}, 3)

    assert found == Decision(init="cp01")


def test_once_it_is_there_the_others_join():
    seen = {"cp01": plane("cp01"), "cp02": NOTHING, "cp03": NOTHING, "gpu01": NOTHING, "gpu02": NOTHING}

    assert decided(seen, 3) == Decision(
        host="cp01", ca=OURS, control_planes=("cp02", "cp03"), workers=("gpu01", "gpu02")
    )


def test_a_whole_cluster_is_left_alone():
    seen = {"cp01": plane("cp01"), "gpu01": worker("gpu01"), "gpu02": worker("gpu02")}

    assert decided(seen) == Decision(host="cp01", ca=OURS)


def test_another_control_plane_lets_in_while_the_first_is_away():
    found = decided({"cp02": plane("cp02"), "gpu01": NOTHING}, 3)

    assert (found.host, found.workers, found.init) == ("cp02", ("gpu01",), "")


def test_nothing_is_begun_while_a_control_plane_is_silent():
    found = decided({"cp01": NOTHING, "cp03": NOTHING, "gpu01": NOTHING}, 3)

    assert found.init == ""
    assert states(found.refused["cp01"]["reason"], "cp02")
    assert states(found.refused["cp01"]["hint"], "state: absent")
    assert set(found.refused) == {"cp01", "cp03", "gpu01"}


def test_a_drained_control_plane_counts_as_silent():
    found = decided({"cp01": NOTHING, "gpu01": NOTHING}, idle=frozenset({"cp02"}))

    assert found.init == ""
    assert "cp02" in found.refused["cp01"]["reason"]


def test_a_cluster_in_the_state_is_not_created_again():
    found = decided({"cp01": NOTHING, "gpu01": worker("gpu01")}, known_ca=OURS)

    assert found.init == ""
    assert_lost(found.refused["cp01"])
    assert "gpu01" not in found.refused


def test_an_unreachable_control_plane_is_reported_even_when_every_worker_is_in():
    found = decided({"gpu01": worker("gpu01"), "gpu02": worker("gpu02")}, known_ca=OURS)

    assert set(found.refused) == {"gpu01", "gpu02"}


def test_a_host_of_another_cluster_is_refused_with_that_cluster_s_name():
    foreign = worker("gpu02", OTHER, server="https://10.9.9.9:6443")
    found = decided({"cp01": plane("cp01"), "gpu01": NOTHING, "gpu02": foreign})

    assert found.workers == ("gpu01",)
    assert "https://10.9.9.9:6443" in found.refused["gpu02"]["reason"]
    assert "nodes.gpu02" in found.refused["gpu02"]["hint"]


def test_a_foreign_worker_does_not_stop_the_beginning():
    found = decided({"cp01": NOTHING, "gpu01": NOTHING, "gpu02": worker("gpu02", OTHER)})

    assert found.init == "cp01"
    assert set(found.refused) == {"gpu02"}


def test_another_cluster_on_the_control_plane_is_not_taken_over():
    found = decided({"cp01": plane("cp01", OTHER), "gpu01": NOTHING}, known_ca=OURS)

    assert (found.init, found.host, found.workers) == ("", "", ())
    assert_lost(found.refused["gpu01"])


def test_control_planes_of_two_clusters_stop_everything():
    found = decided({"cp01": plane("cp01"), "cp02": plane("cp02", OTHER), "cp03": NOTHING, "gpu01": NOTHING}, 3)

    assert (found.init, found.host) == ("", "")
    assert "different clusters" in found.refused["gpu01"]["reason"]


def test_what_a_killed_run_left_is_resumed():
    cut_off = Membership(unfinished="join", remains=True, ca=OURS)
    found = decided({"cp01": plane("cp01"), "gpu01": cut_off, "gpu02": NOTHING})

    assert found.workers == ("gpu01", "gpu02")
    assert decided({"cp01": Membership(unfinished="init", remains=True, ca=OURS), "gpu01": NOTHING}).init == "cp01"


def test_what_another_installation_left_is_refused():
    found = decided({"cp01": plane("cp01"), "gpu01": Membership(remains=True)})

    assert states(found.refused["gpu01"]["reason"], "kubeadm", "this lab")
    assert states(found.refused["gpu01"]["hint"], "/etc/kubernetes", "/var/lib/etcd", "kubeadm reset")
    assert found.workers == ()
    assert decided({"cp01": Membership(remains=True), "gpu01": NOTHING}).init == ""


def test_a_changed_role_or_name_of_a_member_is_refused_with_the_way_to_it():
    found = decided({"cp01": plane("cp01"), "gpu01": plane("gpu01"), "gpu02": worker("gpu99")})

    assert states(found.refused["gpu01"]["reason"], "control_plane", "nodes.gpu01.role", "worker")
    assert states(found.refused["gpu01"]["hint"], "absent")
    assert states(found.refused["gpu02"]["reason"], "gpu99")
    assert states(found.refused["gpu02"]["hint"], "name", "state: absent")


def test_a_host_whose_steps_failed_is_not_touched():
    seen = {"cp01": plane("cp01"), "gpu01": NOTHING, "gpu02": NOTHING}

    assert decided(seen, ready=frozenset({"cp01", "gpu02"})).workers == ("gpu02",)


def test_the_cluster_is_not_begun_on_a_host_that_is_not_ready():
    found = decided({"cp01": NOTHING, "gpu01": NOTHING}, ready=frozenset({"gpu01"}))

    assert found.init == ""
    assert states(found.refused["gpu01"]["reason"], "cp01", "ready")
    assert states(found.refused["gpu01"]["hint"], "fix cp01")
