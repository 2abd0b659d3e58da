"""Says every half minute which pods a roll-out still waits for.

The Kubernetes provider says it only when something changes, so the log of a long wait would end
there.
"""

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pulumi

from components.kubernetes.client import KubernetesApi, Object, at
from stacks.base import LabError

ANNOUNCE_S = 30.0


def announce(running: Mapping[str, pulumi.CustomResource], kubeconfig: pulumi.Input[str]) -> None:
    """Logs the missing pods of DaemonSets and Deployments, until the engine is done with them.

    A thread does it, which ends with the program. The program lives as long as the engine waits for
    its resources.
    """
    if pulumi.runtime.is_dry_run():
        return
    pending = set(running)

    def until_done(path: str, resource: pulumi.CustomResource) -> None:
        resource.id.apply(lambda _: pending.discard(path))

    for path, resource in running.items():
        until_done(path, resource)
    context = contextvars.copy_context()  # holds the SDK's connection to the engine

    def start(text: str) -> None:
        threading.Thread(
            target=context.run, args=(report, text, pending, _log), daemon=True
        ).start()

    pulumi.Output.from_input(kubeconfig).apply(start)


def report(kubeconfig: str, pending: set[str], say: Callable[[str], None]) -> None:
    """Says what is missing every `ANNOUNCE_S`, until nothing is pending."""
    begun_s = time.monotonic()
    while True:
        time.sleep(ANNOUNCE_S)
        if not pending:
            return
        try:
            # a server that hangs must not make the log silent for longer
            with KubernetesApi(kubeconfig, retries=0) as api:
                missing = list(_missing(api, sorted(pending)))
        except LabError as error:
            missing = [str(error)]
        if missing:
            say(f"still waiting after {time.monotonic() - begun_s:.0f} s: {'; '.join(missing)}")


def shortfall(workload: Object) -> str:
    """How many pods of a DaemonSet or Deployment are ready, or nothing when all are."""
    generation = _count(workload, "metadata", "generation")
    if _count(workload, "status", "observedGeneration") < generation:
        return "the controller manager has not seen it yet"
    if workload.get("kind") == "DaemonSet":
        pods = _count(workload, "status", "desiredNumberScheduled")
        keys = ("numberAvailable", "updatedNumberScheduled")
    else:
        pods = _count(workload, "spec", "replicas")
        keys = ("availableReplicas", "updatedReplicas")
    ready = min(_count(workload, "status", key) for key in keys)
    return f"{ready} of {pods} ready" if ready < pods else ""


def _missing(api: KubernetesApi, paths: list[str]) -> Iterator[str]:
    for path in paths:
        workload = api.get(path)
        if workload is not None and (lack := shortfall(workload)):
            namespace, name = (at(workload, "metadata", key) for key in ("namespace", "name"))
            yield f"{workload['kind']} {namespace}/{name}: {lack}"


def _count(workload: Object, *path: str) -> int:
    value = at(workload, *path)
    return value if isinstance(value, int) else 0


def _log(text: str) -> None:
    pulumi.log.info(text, ephemeral=True)
