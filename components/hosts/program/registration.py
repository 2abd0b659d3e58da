"""Whether the cluster has heard of this node.

kubeadm join of a worker ends well as soon as its kubelet has answered once and has a certificate. One that dies the
next moment, and at each start again, never becomes a node, and nothing of kubeadm says so. What it cannot tell apart: a
node that an earlier join left under the same name, which kubeadm reset does not take out of the cluster.
"""

from typing import Optional

from .machine import Machine, StepError

CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""Certificate and key by which the kubelet is known to the API server; it may read its own node."""
REGISTERED_S = 90
"""A kubelet that lives has registered within seconds; systemd starts one that died after ten."""
ANSWER_S = 10
PAUSE_S = 1


def wait_until_registered(machine: Machine, server: str, node: str, ca_file: str) -> None:
    """Returns as soon as the API server knows the node, or cannot be asked: what kubeadm said counts then.

    Raises:
        StepError: when the API server answers, and has no such node.
    """
    end_s = machine.now_s() + REGISTERED_S
    while _knows(machine, server, node, ca_file) is False:
        if machine.now_s() > end_s:
            raise StepError(
                f"kubeadm join ended well, and after {REGISTERED_S} s the cluster has no node {node}: its kubelet "
                "does not stay up",
                "the next run cleans up and tries again; on the host: journalctl -u kubelet",
            )
        machine.pause(PAUSE_S)


def _knows(machine: Machine, server: str, node: str, ca_file: str) -> Optional[bool]:
    if not machine.exists(CERTIFICATE):
        return None
    import ssl  # noqa: PLC0415  # as long as all the rest takes to start, and only a join asks
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    try:
        trusted = ssl.create_default_context(cafile=machine.path(ca_file))
        trusted.load_cert_chain(machine.path(CERTIFICATE))
        # no proxy of the host: the API server is on the management network
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        opener.open(f"{server}/api/v1/nodes/{node}", timeout=ANSWER_S).close()
    except urllib.error.HTTPError as error:
        error.close()
        return False if error.code == 404 else None
    except (OSError, ValueError):
        return None
    return True
