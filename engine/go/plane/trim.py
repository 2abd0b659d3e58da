"""Copies the pinned control plane to ./upstream without what its sources import and it never runs.

The collector of dead pods imports all of the kubelet for one comparison, and helpers of tests, in files that are not
tests, import the fake clients of all kinds: together 200 packages.
"""

from engine.upstream import copy, edit

EVICTED = "eviction.PodIsEvicted({0}.Status)"
COMPARED = '{0}.Status.Phase == v1.PodFailed && {0}.Status.Reason == "Evicted"'
"""The function's whole body."""


def main() -> None:
    """Leaves both copies, and a go.mod that builds against them."""
    kubernetes = copy("k8s.io/kubernetes")
    edit(
        kubernetes / "pkg/controller/podgc/gc_controller.go",
        [
            ('\t"k8s.io/kubernetes/pkg/kubelet/eviction"\n', ""),
            *((EVICTED.format(pod), COMPARED.format(pod)) for pod in ("o[i]", "o[j]")),
        ],
    )
    (kubernetes / "pkg/scheduler/backend/queue/testing.go").unlink()
    (copy("k8s.io/apiserver") / "pkg/admission/plugin/policy/generic/policy_test_context.go").unlink()


if __name__ == "__main__":
    main()
