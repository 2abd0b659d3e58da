"""Images as this lab pulls them: every image name of the cluster goes through `Registry.resolve` here."""

from pydantic import JsonValue

from components.cluster.manifests import Manifest
from stacks.bill import Registry


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
    """An image as the operators' custom resources have it: repository, image, version, and the login."""
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
    """A map inside a manifest."""
    found = of[key]
    if not isinstance(found, dict):
        raise TypeError(f"{key} is not a map")
    return found


def _pulled(container: JsonValue, registry: Registry) -> JsonValue:
    if not isinstance(container, dict):
        raise TypeError("a container is not a map")
    return {**container, "image": registry.resolve(str(container["image"]))}
