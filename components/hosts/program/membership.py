"""A host's membership in the cluster that rocelab makes with kubeadm.

Tokens and keys come on stdin, lie in memory (/run) while kubeadm reads them, and are never in an
argument, a log or the answer. A journal on the host distinguishes an unfinished kubeadm run from a
finished one.
"""

import base64
import hashlib
import json
import os
import re
from typing import Any, Callable, Dict, Optional, Tuple

from .host import Host
from .machine import Machine, StepError, first_match, load_json
from .places import RUN, STATE

KUBERNETES = "/etc/kubernetes"
KUBELET_CONFIG = KUBERNETES + "/kubelet.conf"
ADMIN_CONFIG = KUBERNETES + "/admin.conf"
CA_FILE = KUBERNETES + "/pki/ca.crt"
REMAINS = (
    KUBELET_CONFIG,
    ADMIN_CONFIG,
    KUBERNETES + "/bootstrap-kubelet.conf",
    KUBERNETES + "/manifests/kube-apiserver.yaml",
    KUBERNETES + "/manifests/etcd.yaml",
    "/var/lib/etcd/member",
)
"""Any of them means that kubeadm has run here."""
JOURNAL_FILE = STATE + "/kubeadm.json"
CONFIG_FILE = RUN + "/kubeadm.yaml"
CNI_FILES = ("/etc/cni/net.d/10-flannel.conflist",)
CNI_LINKS = ("flannel.1", "cni0")
KUBEADM_S = 720
"""Limit of one kubeadm run, which pulls the images of the control plane."""
RESET_S = 180
SECRETS = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\b[0-9a-f]{64}\b")
"""Join tokens and certificate keys, as kubeadm writes them."""


def membership(machine: Machine) -> Dict[str, Any]:
    """The membership by the host's files alone, so it is known while the API server is down."""
    kubelet = machine.read(KUBELET_CONFIG)
    journal = load_json(machine, JOURNAL_FILE)
    node = ""
    if kubelet:
        flags = machine.read("/var/lib/kubelet/kubeadm-flags.env")
        node = first_match(r"--hostname-override=([^\s\"]+)", flags)
        node = node or machine.read("/proc/sys/kernel/hostname").lower()
    plane = machine.exists(ADMIN_CONFIG) and machine.exists(
        KUBERNETES + "/manifests/kube-apiserver.yaml"
    )
    return {
        "role": "control_plane" if plane and kubelet else "worker" if kubelet else "",
        "ca": _digest(machine.read(CA_FILE)),
        "server": first_match(r"^\s*server:\s*(\S+)", kubelet),
        "node": node,
        "unfinished": journal.get("doing", ""),
        "remains": any(machine.exists(path) for path in REMAINS),
    }


def begin(host: Host) -> None:
    """Runs kubeadm init, unless this host is a control plane already."""
    _once(host, "init", ("kubeadm", "init", "--config", CONFIG_FILE, "--skip-token-print"))


def join(host: Host) -> None:
    """Runs kubeadm join, unless this host is in a cluster already."""
    _once(host, "join", ("kubeadm", "join", "--config", CONFIG_FILE))


def invite(host: Host) -> None:
    """Creates the join token, and uploads the certificates for control planes."""
    config = ("--config", CONFIG_FILE)
    uninvite(host)  # a verb may run twice, and kubeadm refuses a token that is known
    _kubeadm(host, ("kubeadm", "token", "create", *config, "--kubeconfig", ADMIN_CONFIG))
    if host.document["kubeadm"].get("control_plane"):
        upload = ("init", "phase", "upload-certs", "--upload-certs", "--skip-certificate-key-print")
        _kubeadm(host, ("kubeadm", *upload, *config))


def uninvite(host: Host) -> None:
    """Deletes the join token. Its first six characters are its name, not a secret."""
    name = host.document["kubeadm"]["token_id"]
    host.machine.run("kubeadm", "token", "delete", name, "--kubeconfig", ADMIN_CONFIG, timeout_s=60)


def give_up(host: Host) -> None:
    """Takes the host out of its cluster if this lab put it there."""
    if host.machine.exists(JOURNAL_FILE):
        _reset(host)
        host.machine.remove(JOURNAL_FILE)


CLUSTER_VERBS: Dict[str, Callable[[Host], None]] = {
    "cluster-init": begin,
    "cluster-join": join,
    "cluster-invite": invite,
    "cluster-uninvite": uninvite,
}
"""The verbs for the cluster."""


def answer(host: Host) -> Dict[str, Any]:
    """The answer of a cluster verb: the membership, and the CA certificate that a joining host must
    expect.
    """
    return {"kubernetes": membership(host.machine), "ca_pem": host.machine.read(CA_FILE)}


def _once(host: Host, doing: str, words: Tuple[str, ...]) -> None:
    machine = host.machine
    current = membership(machine)
    if current["role"] and not current["unfinished"]:
        return
    if current["unfinished"]:
        # an earlier run was interrupted: kubeadm refuses to continue it, and nothing of value
        # exists yet
        _reset(host)
    elif current["remains"]:
        raise StepError(
            "kubeadm has run on this host before, but not for this lab",
            "check /etc/kubernetes and /var/lib/etcd; if you do not need them, run kubeadm reset",
        )
    if machine.run("kubeadm", "version", "-o", "short").code:
        raise StepError("kubeadm does not run on this host", "see its step kubernetes_packages")
    machine.put(JOURNAL_FILE, json.dumps({"doing": doing}) + "\n")
    _kubeadm(host, words)
    made = membership(machine)
    wait_until_registered(machine, made["server"], made["node"], CA_FILE)
    machine.put(JOURNAL_FILE, json.dumps({"did": doing}) + "\n")
    host.changed.append(f"kubeadm {doing}")


def _kubeadm(host: Host, words: Tuple[str, ...]) -> None:
    """Runs kubeadm with the configuration that came on stdin."""
    machine = host.machine
    place = machine.path(CONFIG_FILE)
    machine.make_folder(RUN)
    machine.remove(CONFIG_FILE)
    try:
        # readable by root only, from the first byte on
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(host.document["kubeadm"]["config"])
        done = machine.run(*words, timeout_s=KUBEADM_S)
    finally:
        machine.remove(CONFIG_FILE)
    if done.code:
        raise StepError(
            f"{' '.join(words[:3])} failed ({done.code}): {_said(done.err or done.out)}",
            "the next run starts over; on the host: journalctl -u kubelet, crictl ps -a",
        )


def _said(text: str) -> str:
    """Errors of kubeadm, else its last lines, without secrets."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("[ERROR", "error"))]
    return SECRETS.sub("…", " / ".join(errors[:4] or lines[-3:]))[:900]


def _reset(host: Host) -> None:
    """Runs kubeadm reset, and removes what it only lists. Firewall rules stay until the
    next boot.
    """
    machine = host.machine
    socket = (host.document.get("kubernetes") or {}).get("cri_socket", "")
    chosen = ("--cri-socket", socket) if socket else ()
    machine.must("kubeadm", "reset", "-f", *chosen, timeout_s=RESET_S)
    for path in CNI_FILES:
        machine.remove(path)
    for name in CNI_LINKS:
        if machine.exists(f"/sys/class/net/{name}"):
            machine.run("ip", "link", "delete", name)
    host.changed.append("kubeadm reset")


def _digest(pem: str) -> str:
    """sha256 of the certificate; empty without one. It names the cluster."""
    body = re.search(r"-----BEGIN CERTIFICATE-----(.*?)-----END", pem, re.DOTALL)
    try:
        return hashlib.sha256(base64.b64decode(body.group(1))).hexdigest() if body else ""
    except ValueError:
        return ""


CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""Certificate and key by which the kubelet is known to the API server; it may read its own node."""
REGISTERED_S = 90
"""A running kubelet registers within seconds; systemd restarts one that exits after ten."""
ANSWER_S = 10
PAUSE_S = 1


def wait_until_registered(machine: Machine, server: str, node: str, ca_file: str) -> None:
    """Waits until the API server knows the node, or does not answer: then kubeadm's own result
    counts.

    kubeadm join of a worker succeeds as soon as the kubelet has answered once. A kubelet that dies
    right after, at each start, never registers. A node of the same name from an earlier join also
    counts.
    """
    end_s = machine.now_s() + REGISTERED_S
    while _knows(machine, server, node, ca_file) is False:
        if machine.now_s() > end_s:
            raise StepError(
                f"kubeadm join succeeded, but after {REGISTERED_S} s the cluster has no node "
                f"{node}: its kubelet does not stay up",
                "the next run starts over; on the host: journalctl -u kubelet",
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
