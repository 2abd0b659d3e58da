"""Secrets on their way to the hosts: who gets them, and where they never are."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.hosts import delivery
from components.hosts.delivery import Delivery, DeliveryInputs, receive_command, receive_secret, send
from components.hosts.document import document_text, host_document
from components.hosts.hosts import Hosts, HostsArgs
from components.hosts.pack import packed
from components.hosts.program.secret_files import DELIVERED, MISSING, NEWER, state_of
from components.provider.base import ProviderConfig
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.base import LabError
from stacks.lab import Lab
from stacks.load import Credentials
from tests.engine import Engine, Recorded
from tests.labs import lab_with
from tests.messages import stating

CANARY = "canary-of-the-licence-token"
FLEET = "rocelab:hosts:Fleet"
NLS = {"kind": "nls", "server": "dls.site.example"}


@pytest.fixture
def licensed() -> Lab:
    return lab_with(licence=NLS)


def built(lab: Lab, token: str | None = CANARY) -> Recorded:
    keys = {node.name: "ssh-ed25519 key" for node in lab.nodes}

    def program() -> None:
        files = {"licenceToken": pulumi.Output.secret(token)} if token else {}
        key = pulumi.Output.secret("key")
        Hosts(
            "hosts",
            HostsArgs(lab=lab, credentials=Credentials(private_key=key, host_keys=keys, kubeconfig=None, files=files)),
        )

    answer = {"results": {}, "facts": {}}
    return Engine(lambda kind, _n, _i: answer if kind == FLEET else {}).run(program)


def test_secrets_are_there_before_the_commands_and_the_fleet_looks_again_when_one_changes(licensed):
    seen = built(licensed)

    assert "hosts-program" in seen["hosts-gpu01"].depends_on
    assert seen["hosts-fleet"].inputs["files"] == seen["hosts-program"].inputs["files"]
    assert built(licensed, "another")["hosts-fleet"].inputs["files"] != seen["hosts-fleet"].inputs["files"]


def test_no_input_of_any_resource_holds_the_secret(licensed):
    seen = built(licensed)

    for name, resource in seen.resources.items():
        assert CANARY not in json.dumps(dict(resource.inputs), default=str), name
    assert "files" in seen["hosts-program"].secrets, "its digest is one too"
    for node in licensed.nodes:
        assert CANARY not in document_text(host_document(licensed, node))


def test_a_lab_without_secrets_has_no_mark_of_them():
    seen = built(lab_with(), token=None)

    assert "files" not in seen["hosts-program"].inputs
    assert "files" not in seen["hosts-fleet"].inputs


def provider(values: dict[str, str]) -> Delivery:
    return Delivery(ProviderConfig(values))


INPUTS = DeliveryInputs(program="digest", hosts="digest", files="digest")


def test_each_node_gets_what_it_needs_and_no_other(licensed):
    content = licensed.model_dump(mode="json", exclude_unset=True)
    content["nodes"][1]["gpus"] = 0
    content["nodes"][1].pop("vgpu", None)

    found = provider({"licenceToken": CANARY}).content(Lab.model_validate(content))

    program = {receive_command(): packed()}
    assert found == {"gpu01": {**program, receive_secret("licence"): CANARY.encode()}, "gpu02": program}


def test_a_stack_without_the_secret_is_refused_with_the_command(licensed):
    with pytest.raises(LabError, check=stating("pulumi config set --secret rocelab:licenceToken")):
        provider({}).content(licensed)


def test_a_stack_without_a_lab_is_refused():
    with pytest.raises(LabError, check=stating("rocelab:lab")):
        asyncio.run(provider({}).create(INPUTS))


def test_only_the_owner_can_read_the_file_and_nothing_is_in_the_command_line(tmp_path: Path):
    command = receive_secret("licence")
    done = subprocess.run(["sh", "-c", command], input=CANARY.encode(), env={"HOME": str(tmp_path)}, check=False)

    place = tmp_path / ".rocelab-secret-licence"
    assert done.returncode == 0
    assert place.read_text() == CANARY
    assert place.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_a_silent_host_delays_no_other():
    taken: list[tuple[str, bytes]] = []

    class Some:
        async def run_all(self, endpoint: Endpoint, inputs: dict[str, bytes], answer_s: float) -> list[str]:
            if endpoint.address == "192.0.2.1":
                raise NoAnswerError("silent")
            taken.extend(inputs.items())
            return []

    def at(address: str) -> Endpoint:
        return Endpoint(address=address, port=22, user="nvidia", host_key="ssh-ed25519 key")

    files = {name: {receive_secret("licence"): CANARY.encode()} for name in ("gpu01", "gpu02")}
    hosts: Any = Some()
    asyncio.run(send(hosts, {"gpu01": at("192.0.2.1"), "gpu02": at("192.0.2.2")}, files))

    assert taken == [(receive_secret("licence"), CANARY.encode())]
    assert CANARY not in taken[0][0]


def test_the_provider_takes_the_secret_from_the_configuration_and_keeps_it_out_of_its_outputs(licensed, monkeypatch):
    sent: list[dict[str, Any]] = []

    async def record(_hosts: object, _endpoints: object, files: dict[str, Any]) -> None:
        sent.append(files)

    monkeypatch.setattr(delivery, "send", record)
    monkeypatch.setattr(
        delivery.credentials, "login_to", lambda *_: type("L", (), {"private_key": None, "endpoints": {}})
    )
    files = provider({"lab": licensed.model_dump_json(exclude_unset=True), "licenceToken": CANARY})

    made = asyncio.run(files.create(INPUTS))

    content = {receive_command(): packed(), receive_secret("licence"): CANARY.encode()}
    assert sent == [{"gpu01": content, "gpu02": content}]
    assert made == INPUTS
    assert asyncio.run(files.diff(made, INPUTS.model_copy(update={"files": "another"}))) == ["files"]
    assert not asyncio.run(files.diff(made, INPUTS))


@pytest.mark.parametrize(
    ("brought", "in_place", "told"),
    [(b"a", b"a", DELIVERED), (b"a", b"b", NEWER), (b"a", b"", NEWER), (b"", b"", MISSING), (b"", b"b", DELIVERED)],
)
def test_what_is_in_place_is_compared_with_what_was_brought(brought, in_place, told):
    assert state_of(brought, in_place) == told
