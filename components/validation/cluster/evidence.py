"""Evidence of a failed job: its pods with their events and logs, networks and nodes.

It is collected before the job is deleted, and stored without secrets. Values of environment variables are left out,
except those that configure the transport.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from pydantic import JsonValue

from components.jobs.mpijob import GROUP, PLURAL, VERSION
from components.kubernetes.client import KubernetesApi
from components.validation.memory.redact import GONE
from stacks.base import LabError

LARGEST_LOG_BYTES = 200_000
"""Per pod; the launcher's whole log is kept elsewhere."""
LIMIT = {"limitBytes": str(LARGEST_LOG_BYTES)}
MOST_PODS = 16
"""Whose logs are read: ranks mostly fail for the same reason."""
SHOWN_VARIABLES = ("NCCL_", "OMPI_", "UCX_", "HOROVOD_")
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
NOISE = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")


def evidence_of(api: KubernetesApi, namespace: str, job: str) -> dict[str, str]:
    """The texts by name. A text that cannot be read says why, so a second fault does not hide the first."""
    core = f"/api/v1/namespaces/{namespace}"
    selector = {"labelSelector": f"training.kubeflow.org/job-name={job}"}
    found = {
        "job.json": _asked(lambda: _document(api, f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{job}")),
        "pods.json": _asked(lambda: _document(api, f"{core}/pods", selector)),
        "events.json": _asked(lambda: _document(api, f"{core}/events")),
        "nodes.json": _asked(lambda: _document(api, "/api/v1/nodes")),
    }
    pods = list(_pods(found["pods.json"]))
    found["network-status.json"] = json.dumps({name: status for name, status in pods if status}, indent=1)
    for name, _ in pods[:MOST_PODS]:
        found[f"logs/{name}.log"] = _asked(partial(api.text, f"{core}/pods/{name}/log", LIMIT))
    return {f"evidence/{job}/{name}": text for name, text in found.items()}


def _asked(read: Callable[[], str]) -> str:
    try:
        return read()
    except LabError as error:
        return f"could not be read: {error}"


def _document(api: KubernetesApi, path: str, query: Mapping[str, str] | None = None) -> str:
    return json.dumps(cleaned(json.loads(api.text(path, query or {}))), indent=1)


def cleaned(value: JsonValue) -> JsonValue:
    """A document without values of environment variables and without what only machines read."""
    if isinstance(value, list):
        return [cleaned(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: cleaned(one) for key, one in value.items() if key not in NOISE}
    variables = kept.get("env")
    if isinstance(variables, list):
        kept["env"] = [_variable(one) for one in variables]
    return kept


def _variable(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict) or "value" not in value:
        return value
    shown = str(value.get("name", "")).startswith(SHOWN_VARIABLES)
    return value if shown else {**value, "value": GONE}


def _pods(text: str) -> Iterator[tuple[str, JsonValue]]:
    """Name of each pod, and what Multus says of its networks."""
    try:
        content = json.loads(text)
    except ValueError:
        return
    for pod in content.get("items") or ():
        metadata = pod.get("metadata", {})
        yield str(metadata.get("name", "")), metadata.get("annotations", {}).get(NETWORK_STATUS)
