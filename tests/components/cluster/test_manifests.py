"""The templates: what they may contain, and that no value can leave its place in them."""

import json
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, UndefinedError, nodes
from pydantic import JsonValue

from components.cluster import manifests
from components.cluster.manifests import OBJECT, TEMPLATES, quoted, render, render_all
from components.validation.benchmarks.pods.plan import pods_of
from stacks.lab import Lab
from stacks.safe_yaml import load_kubernetes_yaml
from tests.components.cluster.conftest import parts
from tests.components.cluster.rendered import everything, variants
from tests.components.jobs.jobs import rendered
from tests.labs import made_here

FILES = sorted(TEMPLATES.rglob("*.yaml.j2"))
NAMES = [str(file.relative_to(TEMPLATES)).removesuffix(".yaml.j2") for file in FILES]
ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.For,
    nodes.Name,
    nodes.Tuple,
    nodes.Getattr,
    nodes.Const,
    nodes.Concat,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
Call = tuple[str, dict[str, Any]]


def tree(file: Path) -> nodes.Template:
    return Environment(trim_blocks=True, lstrip_blocks=True, autoescape=True).parse(file.read_text())


def all_nodes(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from all_nodes(child)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_template_has_values_if_and_for_and_no_other_logic(file: Path) -> None:
    assert {type(node) for node in all_nodes(tree(file))} <= set(ALLOWED)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_each_value_is_a_whole_scalar(file: Path) -> None:
    """Never a part of a word or of a quoted text, which its own quotes would end."""
    for output in (node for node in all_nodes(tree(file)) if isinstance(node, nodes.Output)):
        for place, node in enumerate(output.nodes):
            if isinstance(node, nodes.TemplateData):
                continue
            before = output.nodes[place - 1] if place else None
            after = output.nodes[place + 1] if place + 1 < len(output.nodes) else None
            if before is not None:
                assert isinstance(before, nodes.TemplateData), "two values without anything between them"
                assert before.data.endswith(("  ", ": ", "- ", ", ", "[")), before.data[-30:]
            if after is not None:
                assert isinstance(after, nodes.TemplateData)
                assert after.data.startswith(("\n", ",", "]", "}", ": ")), after.data[:30]


@pytest.mark.parametrize("file", FILES)
def test_every_object_of_a_template_with_several_has_a_key_of_its_own(file: Path) -> None:
    keys = OBJECT.findall(file.read_text())

    assert "" not in keys
    assert len(set(keys)) == len(keys)
    assert file.read_text().count("\nkind: ") + file.read_text().startswith("kind: ") == max(len(keys), 1)


@given(JSON)
def test_a_quoted_value_is_read_as_itself_on_one_line(value: JsonValue) -> None:
    assert "\n" not in quoted(value)
    assert load_kubernetes_yaml(f"a: {quoted(value)}\nb: [{quoted(value)}]\n") == {"a": value, "b": [value]}


@pytest.fixture(scope="module")
def calls(lab: Lab) -> list[Call]:
    """Every template with values that labs give it."""
    recorded: dict[str, Call] = {}
    real = manifests.render_all

    def recording(template: str, **values: Any) -> dict[str, Any]:
        if values:
            recorded[template] = (template, values)
        return real(template, **values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "render_all", recording)
        for variant in (*variants(lab).values(), Lab.model_validate_json(json.dumps(made_here()))):
            everything(variant)
        rendered(lab)
        pods = pods_of(lab)
        assert pods
        pods.document(pods.nodes[0], lab.name, "r1")
    return list(recorded.values())


def test_every_template_with_values_is_rendered_for_some_lab(calls: list[Call]) -> None:
    without_values = {"cluster/manifests/nv_ipam/definitions"}

    assert {template for template, _ in calls} == set(NAMES) - without_values


@given(data=st.data(), text=st.text(min_size=1))
def test_no_text_changes_anything_but_its_own_place(calls: list[Call], data: st.DataObject, text: str) -> None:
    texts = {
        template: [key for key, value in values.items() if value and isinstance(value, str)]
        for template, values in calls
    }
    template, values = data.draw(st.sampled_from([call for call in calls if texts[call[0]]]))
    key = data.draw(st.sampled_from(texts[template]))
    before, after = render_all(template, **values), render_all(template, **{**values, key: text})

    assert list(before) == list(after)
    for name, manifest in before.items():
        there, here = dict(parts(manifest)), dict(parts(after[name]))
        assert list(there) == list(here)
        for path, value in here.items():
            if isinstance(value, str) and value != there[path]:
                assert text in value or quoted(text) in value, "the second in a file inside a ConfigMap"


def test_a_missing_value_and_one_that_is_no_json_are_errors_with_their_name() -> None:
    with pytest.raises(UndefinedError, match="namespace"):
        render_all("cluster/manifests/multus/rbac")
    with pytest.raises(TypeError, match=r"10\.0\.0\.0/24"):
        render("cluster/manifests/namespaces/namespace", name=IPv4Network("10.0.0.0/24"), runs_benchmarks=False)


def test_the_templates_are_found_from_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manifests._environment.cache_clear()  # a process that starts there has none yet

    name = json.dumps(render("cluster/manifests/namespaces/namespace", name="a", runs_benchmarks=True))
    assert "pod-security.kubernetes.io/enforce" in name
