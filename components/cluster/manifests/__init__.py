"""Kubernetes objects from the templates in this folder, one folder per program.

A template gets values and decides nothing: it has `if` and `for` over them, no call and no filter.
A line `--- # role` begins an object whose resource is named with `role`. Such a key must not
change, because it is in the state.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from stacks.bill import Registry
from stacks.frozen import frozen
from stacks.safe_yaml import load_kubernetes_yaml

if TYPE_CHECKING:
    from jinja2 import Environment

Manifest = dict[str, JsonValue]
"""A Kubernetes object. No map in it is empty: server-side apply would own the missing content."""

PART_OF: Manifest = {"app.kubernetes.io/part-of": "rocelab"}
TEMPLATES = Path(__file__).parents[2]
"""`components`: a layer's templates are in its own folder `manifests`."""
AGENTS = {"DaemonSet", "Deployment"}
OBJECT = re.compile(r"^---(?: # ([a-z-]+))?\n", re.MULTILINE)


@frozen
class Program:
    """A program in the cluster, by short key: what its pods need to start, and the pods."""

    needs: Mapping[str, Manifest] = field(default_factory=dict)
    """Accounts, rights and settings."""
    runs: Mapping[str, Manifest]
    """DaemonSets and Deployments."""


def render_program(*templates: str, **values: object) -> Program:
    """The program of templates in this folder, such as `multus/rbac` and `multus/daemonset`."""
    needs: dict[str, Manifest] = {}
    runs: dict[str, Manifest] = {}
    for template in templates:
        for key, manifest in render_all(f"cluster/manifests/{template}", **values).items():
            if manifest["kind"] in AGENTS:
                runs[key] = manifest
            else:
                needs[key] = manifest
    return Program(needs=needs, runs=runs)


def render(template: str, **values: object) -> Manifest:
    """The only object of a template, such as `cluster/manifests/rails/network`."""
    [manifest] = render_all(template, **values).values()
    return manifest


def render_all(template: str, **values: object) -> dict[str, Manifest]:
    """The objects of a template by their keys.

    Raises:
        jinja2.UndefinedError: when the template needs a value that is not given.
    """
    text = _environment().get_template(f"{template}.yaml.j2").render(values)
    _, *objects = OBJECT.split(text)
    if not objects:
        objects = ["", text]
    manifests: dict[str, Manifest] = {}
    for key, body in zip(objects[::2], objects[1::2], strict=True):
        manifests[key or ""] = load_kubernetes_yaml(body)
    return manifests


@cache
def _environment() -> "Environment":
    # imported here: most commands render nothing
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701  # `quoted` is the escape of YAML
        finalize=quoted,
    )
    environment.globals.clear()  # `namespace` is one of Jinja's functions, and would not be missing
    return environment


def quoted(value: object) -> str:
    """A value as JSON in ASCII, which is YAML on one line: no text can end its place in a template.

    Characters beyond ASCII, and DEL, become YAML's own escapes: JSON's are pairs that YAML does not
    join.
    """
    text = json.dumps(value, ensure_ascii=False, default=_refuse)
    return re.sub(r"[^\x20-\x7e]", lambda match: f"\\U{ord(match[0]):08x}", text)


def _refuse(value: object) -> str:
    """What is no JSON. A value that is missing raises here with its name."""
    raise TypeError(f"a template gets {value!s}, which is not JSON; pass text or numbers")


def path_of(manifest: Manifest) -> str:
    """The object's path in the API."""
    kind, metadata = str(manifest["kind"]).lower(), part(manifest, "metadata")
    if kind.endswith("y"):
        plural = f"{kind.removesuffix('y')}ies"
    else:
        plural = f"{kind}s"
    version = str(manifest["apiVersion"])
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = ""
    if "namespace" in metadata:
        namespace = f"/namespaces/{metadata['namespace']}"
    return f"{group}{namespace}/{plural}/{metadata['name']}"


def through_registry(manifest: Manifest, registry: Registry) -> Manifest:
    """A DaemonSet or Deployment whose pods pull from the lab's mirrors, with its login."""
    spec, template = part(manifest, "spec"), part(part(manifest, "spec"), "template")
    pod: Manifest = dict(part(template, "spec"))
    for key in ("initContainers", "containers"):
        containers = pod.get(key)
        if isinstance(containers, list):
            pod[key] = [_pulled(container, registry) for container in containers]
    if registry.pull_secret:
        pod["imagePullSecrets"] = [{"name": registry.pull_secret}]
    return {**manifest, "spec": {**spec, "template": {**template, "spec": pod}}}


def in_parts(image: str, registry: Registry) -> Manifest:
    """An image as the operators' custom resources have it: repository, image, version, and the
    login.
    """
    name = registry.resolve(image)
    name, _, digest = name.partition("@")
    repository, _, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return {
        "repository": repository,
        "image": last,
        # both operators join a digest with @ and a tag with a colon
        "version": digest or tag,
        **({"imagePullSecrets": [registry.pull_secret]} if registry.pull_secret else {}),
    }


def part(of: Manifest, key: str) -> Manifest:
    inner = of[key]
    if not isinstance(inner, dict):
        raise TypeError(f"{key} is not a map")
    return inner


def _pulled(container: JsonValue, registry: Registry) -> JsonValue:
    if not isinstance(container, dict):
        raise TypeError("a container is not a map")
    return {**container, "image": registry.resolve(str(container["image"]))}
