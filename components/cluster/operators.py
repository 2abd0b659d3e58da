"""Placing rendered objects, and the programs that run in the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import field

import pulumi

from components.cluster.manifests import Manifest, Program, part, path_of
from stacks.frozen import frozen

FIELD_MANAGER = "pulumi.com/patchFieldManager"
LAB_LABEL, MANAGED_BY = "rocelab.dev/lab", "app.kubernetes.io/managed-by"
"""What `kubectl get -l` finds the lab's objects by."""


def place(
    name: str, manifest: Mapping[str, object], lab: str, opts: pulumi.ResourceOptions
) -> pulumi.CustomResource:
    """One object, passed to the provider as rendered, with the labels of the lab.

    The SDK's classes would rename keys (`x-kubernetes-…`, `roleRef`); the provider takes the API's
    own.

    The lab has one field manager. The provider's default is random per object, so the run after an
    interrupted one would conflict with it. Nothing is forced: if another manager sets a field
    differently, the error names that manager.
    """
    metadata = manifest["metadata"]
    if not isinstance(metadata, Mapping):
        raise TypeError(f"{name}: the manifest has no metadata")
    annotations = {**metadata.get("annotations", {}), FIELD_MANAGER: f"rocelab-{lab}"}
    labels = {**metadata.get("labels", {}), MANAGED_BY: "rocelab", LAB_LABEL: lab}
    owned = {**manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    api_version = manifest["apiVersion"]
    group = "core/v1" if api_version == "v1" else api_version
    return pulumi.CustomResource(f"kubernetes:{group}:{manifest['kind']}", name, owned, opts)


def with_pod_annotations(
    manifest: Manifest, annotations: Mapping[str, pulumi.Input[str]]
) -> Mapping[str, object]:
    """A DaemonSet or Deployment whose pods restart when one of the annotations changes."""
    spec = part(manifest, "spec")
    template = part(spec, "template")
    metadata = part(template, "metadata")
    present = metadata.get("annotations")
    merged = {**(present if isinstance(present, Mapping) else {}), **annotations}
    return {
        **manifest,
        "spec": {**spec, "template": {**template, "metadata": {**metadata, "annotations": merged}}},
    }


@frozen
class OperatorArgs:
    program: Program
    lab: str
    after: Sequence[pulumi.Resource] = ()
    """The namespace it lives in and the kinds that it watches."""
    pod_annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """What restarts its pods besides a new manifest."""
    roll_out: pulumi.CustomTimeouts | None = None
    """How long its pods may take to be ready; None: the provider's ten minutes."""


class Operator(pulumi.ComponentResource):
    """One program of the cluster: ready when each of its pods is."""

    running: dict[str, pulumi.CustomResource]
    """Its DaemonSets and Deployments by path in the API; the provider waits until they are rolled
    out."""

    def __init__(
        self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:cluster:Operator", name, None, opts)
        # objects name their namespace by text, so the engine does not see the dependency
        below = _child(self, args.after)
        needed = []
        for key, manifest in args.program.needs.items():
            needed.append(place(f"{name}-{key}", manifest, args.lab, below))
        # without account, rights, settings and kinds, a pod restarts with growing delays
        below = _child(self, [*args.after, *needed])
        below.custom_timeouts = args.roll_out
        self.running = {}
        for key, manifest in args.program.runs.items():
            restarting: Mapping[str, object] = manifest
            if args.pod_annotations:
                restarting = with_pod_annotations(manifest, args.pod_annotations)
            running = place(f"{name}-{key}", restarting, args.lab, below)
            self.running[path_of(manifest)] = running
        self.register_outputs({})


def _child(parent: pulumi.Resource, after: Sequence[pulumi.Resource]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(parent=parent, depends_on=list(after))
