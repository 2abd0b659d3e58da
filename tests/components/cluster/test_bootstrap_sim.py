"""What a cluster that is made here gets, against a real API server: its pod network, and kubeadm's own tokens."""

import base64
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from components.cluster.profiles import programs
from components.hosts.bootstrap.config import init_config
from components.hosts.bootstrap.join import new_invitation
from simulator.plane.api import Api
from simulator.plane.layout import Layout
from tests.components.cluster.readback import kinds_of, missing, path_of
from tests.components.cluster.rendered import objects_of
from tests.components.hosts.bootstrap.kubeadm_labs import KUBEADM, ONE

pytestmark = pytest.mark.sim


def test_flannel_is_taken_whole(api: Api) -> None:
    assert ONE.cluster is not None
    kinds = kinds_of(api)
    for manifest in objects_of(programs(ONE, ONE.cluster)["flannel"]):
        found: Any = manifest
        live = api.apply(path_of(found, kinds), found, dry_run=True)
        assert list(missing(found, live)) == [], found["kind"]


@pytest.mark.skipif(KUBEADM is None, reason="no kubeadm: engine/setup --dev builds it")
def test_a_token_of_one_run_is_known_for_an_hour_at_most_and_taken_back(
    api: Api, layout: Layout, tmp_path: Path
) -> None:
    invitation = new_invitation()
    config, kubeconfig = tmp_path / "kubeadm.yaml", str(layout.kubeconfig)
    config.write_text(init_config(ONE, ONE.nodes[0], invitation))
    path = f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{invitation.token_id}"

    made = kubeadm("token", "create", "--config", str(config), "--kubeconfig", kubeconfig)
    secret: Any = api.get(path)
    data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    ended = kubeadm("token", "delete", invitation.token_id, "--kubeconfig", kubeconfig)
    left = api.get(path)

    assert made.returncode == ended.returncode == 0, made.stderr + ended.stderr
    assert f"{data['token-id']}.{data['token-secret']}" == invitation.token
    assert datetime.fromisoformat(data["expiration"]) <= datetime.now(UTC) + timedelta(hours=1)
    assert (data["usage-bootstrap-signing"], data["usage-bootstrap-authentication"]) == ("true", "true")
    assert left is None


def kubeadm(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(KUBEADM), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
