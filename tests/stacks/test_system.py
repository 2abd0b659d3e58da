"""The operating system's section: what it asks for, and what it refuses by name."""

import base64
import json

import pytest
import yaml
from pydantic import ValidationError

from components.hosts.document import deadline_s, host_document, repeated_sections
from components.hosts.program.places import DEADLINE_S
from components.hosts.sections.system import system_sections
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import KEY as LAB_KEY
from stacks.read import parse_lab
from stacks.system import System
from tests.conftest import ROOT
from tests.messages import states

KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()


PATTERN, RULE = "string_pattern_mismatch", "value_error"
"""Kinds of faults, as Pydantic calls them."""


def user(**changes: object) -> dict[str, object]:
    return {"name": "ops", "keys": [KEY], **changes}


def test_nothing_is_asked_for_by_default(lab):
    assert repeated_sections(lab) == {}
    assert set(system_sections(lab, lab.nodes[0]).values()) == {None}
    assert deadline_s(host_document(lab, lab.nodes[0])) == DEADLINE_S


@pytest.mark.parametrize(
    ("given", "field", "kind", "facts"),
    [
        ({"packages": {"debian": ["jq-"]}}, "packages.debian.0", PATTERN, []),
        ({"packages": {"debian": ["--allow-downgrades"]}}, "packages.debian.0", PATTERN, []),
        ({"packages": {"arch": ["jq"]}}, "packages.arch", "extra_forbidden", []),
        ({"clock": {"servers": ["10.0.0.5"]}}, "clock", RULE, ["servers", "keep", "daemon: chrony"]),
        ({"clock": {"daemon": "chrony", "servers": ["a b"]}}, "clock.servers.0", PATTERN, []),
        ({"kernel_arguments": {"extra": ['quiet"; reboot']}}, "kernel_arguments.extra.0", PATTERN, []),
        ({"kernel_arguments": {"extra": ["$(reboot)"]}}, "kernel_arguments.extra.0", PATTERN, []),
        (
            {"kernel_arguments": {"iommu": "auto", "extra": ["iommu=nopt"]}},
            "kernel_arguments",
            RULE,
            ["iommu=nopt", "auto"],
        ),
        (
            {"kernel_arguments": {"pci_realloc": True, "extra": ["pci=realloc"]}},
            "kernel_arguments",
            RULE,
            ["pci=realloc", "pci_realloc"],
        ),
        ({"cpu_governor": "ondemand"}, "cpu_governor", "literal_error", ["keep", "performance"]),
        ({"users": [user(name="root")]}, "users.0", RULE, ["root", "sudo: true"]),
        ({"users": [user(name="a.b")]}, "users.0.name", PATTERN, []),
        ({"users": [user(), user()]}, "", RULE, ["name", "ops"]),
        ({"users": [user(uid=1500), user(name="mlops", uid=1500)]}, "", RULE, ["uid 1500"]),
        ({"users": [user(uid=0)]}, "users.0.uid", "greater_than_equal", [1000]),
        ({"users": [user(keys=[])]}, "users.0.keys", "too_short", [1]),
        ({"users": [user(keys=["ssh-dss AAAA x"])]}, "users.0.keys.0", RULE, ["public key", "ssh-ed25519"]),
        ({"users": [user(keys=[KEY[:-3]])]}, "users.0.keys.0", RULE, ["truncated"]),
        ({"users": [user(keys=[KEY.replace("ssh-ed25519 ", "ssh-rsa ")])]}, "users.0.keys.0", RULE, ["type ssh-rsa"]),
        ({"users": [user(keys=[f'command="sh" {KEY}'])]}, "users.0.keys.0", RULE, ["public key", "options"]),
        ({"users": [user(keys=[f"{KEY}\n{KEY}"])]}, "users.0.keys.0", RULE, ["public key", "one line"]),
    ],
)
def test_it_is_refused_with_the_reason(given, field, kind, facts):
    with pytest.raises(ValidationError) as refused:
        System.model_validate(given)

    fault, *_ = refused.value.errors()
    assert (".".join(map(str, fault["loc"])), fault["type"]) == (field, kind)
    assert states(fault["msg"], *facts)


def test_a_private_key_is_refused_and_never_shown():
    secret = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjE"
    content = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"][LAB_KEY]
    content["system"] = {"users": [user(keys=[secret])]}

    with pytest.raises(LabError) as refused:
        parse_lab(json.dumps(content), "Pulumi.bad.yaml")

    assert states(str(refused.value), "private key", "new pair")
    assert "b3BlbnNz" not in str(refused.value)


@pytest.mark.parametrize("more", [{"sudo": True}, {"uid": 1500}])
def test_the_account_that_we_log_in_with_gets_keys_only(lab, more):
    given = {**lab.model_dump(mode="json"), "system": {"users": [user(name=lab.access.user, **more)]}}

    with pytest.raises(ValidationError, match=r"access\.user.*keys only"):
        Lab.model_validate(given)
    given["system"] = {"users": [user(name=lab.access.user)]}
    assert Lab.model_validate(given).system.users[0].name == "nvidia"


def test_a_run_that_installs_packages_may_take_longer(lab):
    slow = lab.model_copy(update={"system": System.model_validate({"packages": {"rhel": ["perf"]}})})

    document = host_document(slow, slow.nodes[0])
    assert document["deadline_s"] == deadline_s(document) > DEADLINE_S + 1200
    assert document["packages"] == {"debian": [], "rhel": ["perf"]}


def test_the_example_of_the_page_is_accepted_and_names_every_setting():
    example = (ROOT / "docs/system.md").read_text().split("```yaml\n")[1].split("```")[0]

    given = yaml.safe_load(example.replace("ssh-ed25519 AAAA… ops@desk", KEY))["system"]

    assert set(given) == set(System.model_fields)
    System.model_validate(given)
