"""Registry lookups: whether an image exists, and the digests of a lab's images."""

import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Literal, cast

from pydantic import JsonValue

from components.cluster.profiles import images_of
from stacks.bill import Registry
from stacks.frozen import frozen
from stacks.lab import Lab

TIMEOUT_S = 5
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
DOCKER_HUB = "registry-1.docker.io"
LARGEST_ANSWER_BYTES = 100_000


@frozen
class ImageStatus:
    """A registry's answer. Only `missing` surely ends in a pod that never starts."""

    outcome: Literal["present", "missing", "unknown"]
    digest: str = ""
    why: str = ""
    """For `unknown`: why the registry did not answer, such as a login that only the nodes have."""


@frozen
class Reference:
    """An image's name in its parts."""

    host: str
    repository: str
    version: str


def parse(image: str) -> Reference:
    """The parts of a name, with the defaults that every container runtime has."""
    name, _, digest = image.partition("@")
    first, slash, rest = name.partition("/")
    if slash and (re.search(r"[.:]", first) or first == "localhost"):
        host, repository = first, rest
    else:
        host, repository = "docker.io", name
    repository, _, tag = repository.partition(":")
    if host == "docker.io":
        host, repository = DOCKER_HUB, repository if "/" in repository else f"library/{repository}"
    return Reference(host=host, repository=repository, version=digest or tag or "latest")


def look(image: str) -> ImageStatus:
    """Asks the image's registry without a login. Never raises: an unreachable registry yields
    `unknown`.
    """
    reference = parse(image)
    path = f"{reference.host}/v2/{reference.repository}/manifests/{reference.version}"
    try:
        try:
            return _ask(f"https://{path}")
        except urllib.error.URLError as error:
            # a lab's registry often speaks plain HTTP, which its nodes are configured for
            if not isinstance(error.reason, ssl.SSLError) or ":" not in reference.host:
                raise
            return _ask(f"http://{path}")
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return ImageStatus(outcome="unknown", why=f"{reference.host}: {str(reason)[:120]}")


def _ask(url: str, token: str = "") -> ImageStatus:
    header = {"Accept": MANIFESTS, **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        request = urllib.request.Request(url, headers=header, method="HEAD")  # noqa: S310
        with _open(request) as answer:
            return ImageStatus(
                outcome="present", digest=answer.headers.get("Docker-Content-Digest", "")
            )
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return ImageStatus(outcome="missing")
        if (
            error.code == 401
            and not token
            and (granted := _token(error.headers.get("WWW-Authenticate", "")))
        ):
            return _ask(url, granted)
        return ImageStatus(
            outcome="unknown", why=f"{urllib.parse.urlsplit(url).netloc} answers {error.code}"
        )


def _token(challenge: str) -> str:
    """An anonymous token, if the registry gives one."""
    words = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = words.pop("realm", "")
    if not challenge.startswith("Bearer ") or not realm.startswith("https://"):
        return ""
    query = urllib.parse.urlencode(
        {key: words[key] for key in ("service", "scope") if key in words}
    )
    try:
        request = urllib.request.Request(f"{realm}?{query}")  # noqa: S310  # https, see above
        with _open(request) as answer:
            answered = json.loads(answer.read(LARGEST_ANSWER_BYTES))
    except urllib.error.HTTPError:
        return ""
    if isinstance(answered, dict):
        return str(answered.get("token") or answered.get("access_token") or "")
    return ""


def _open(request: urllib.request.Request) -> HTTPResponse:
    """Opens https, or http by the caller above."""
    return cast(HTTPResponse, urllib.request.urlopen(request, timeout=TIMEOUT_S))  # noqa: S310


NAMED_BY_OPERATORS = ("cluster.bill.doca_driver", "cluster.bill.gpu_driver")
"""Their operators append a node's system and kernel to the tag: there is one image per system."""


@dataclass
class Pins:
    """The result of `pins_of`."""

    content: dict[str, JsonValue] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    """Images that keep their tag, and why."""
    unknown: list[str] = field(default_factory=list)

    def add(self, place: str, image: str) -> None:
        *above, last = place.split(".")
        within = self.content
        for key in above:
            inner = within.setdefault(key, {})
            if not isinstance(inner, dict):
                raise TypeError(f"{place} lies inside a value")
            within = inner
        within[last] = image


def pins_of(lab: Lab, ask: Callable[[str], ImageStatus]) -> Pins:
    """The lab's images with their digests, looked up where the lab pulls them.

    A tag can be moved by anyone who may push; a digest names the content.
    """
    pins = Pins()
    registry = lab.cluster.registry if lab.cluster else Registry()
    for place, image in _named(lab):
        if "@" in image:
            continue
        if place in NAMED_BY_OPERATORS:
            pins.lacking.append(
                f"{place}: {image} keeps its tag, to which its operator appends each node's system"
            )
            continue
        pulled = registry.resolve(image)
        status = ask(pulled)
        if status.digest:
            pins.add(place, f"{image}@{status.digest}")
        elif status.outcome == "unknown":
            pins.unknown.append(f"{place}: {status.why}")
        else:
            why = "its registry reports no digest"
            if status.outcome == "missing":
                why = f"{pulled} does not exist"
            pins.lacking.append(f"{place}: {why}")
    return pins


def _named(lab: Lab) -> Iterator[tuple[str, str]]:
    """Place and name of each image that the lab pulls."""
    pulled = images_of(lab)
    if lab.cluster is not None:
        for name in type(lab.cluster.bill).model_fields:
            image = str(getattr(lab.cluster.bill, name))
            if image in pulled:
                yield f"cluster.bill.{name}", image
    if lab.benchmarks is not None and lab.benchmarks.nccl is not None and lab.benchmarks.nccl.image:
        yield "benchmarks.nccl.image", lab.benchmarks.nccl.image
    if lab.benchmarks is not None and lab.benchmarks.mpi is not None and lab.benchmarks.mpi.image:
        yield "benchmarks.mpi.image", lab.benchmarks.mpi.image
    if lab.images is not None and lab.images.training is not None:
        yield "images.training.image", lab.images.training.image
