"""kubeconfig files with embedded certificates: one for people and Pulumi, one per part of the cluster."""

import base64
import json
from pathlib import Path

from simulator.plane.layout import Layout

CONTEXT = "rocelab-simulator"


def render(layout: Layout, client: str, acts_as: tuple[str, str] | None = None, server: str = "") -> str:
    """A kubeconfig with embedded certificates, as JSON, which is valid YAML.

    Args:
        layout: The cluster.
        client: Name of a client certificate of `simulator.plane.pki`.
        acts_as: Namespace and name of the service account whose rights count instead of the client's.
        server: The client's URL of the API server; empty: the URL on this machine.
    """

    def data(name: str) -> str:
        return base64.b64encode(layout.pki(name).read_bytes()).decode()

    user: dict[str, str | list[str]] = {
        "client-certificate-data": data(f"{client}.crt"),
        "client-key-data": data(f"{client}.key"),
    }
    if acts_as is not None:
        namespace, account = acts_as
        user["as"] = f"system:serviceaccount:{namespace}:{account}"
        user["as-groups"] = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ]
    cluster = {"server": server or layout.api_url, "certificate-authority-data": data("ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": client}}],
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": client, "user": user}],
    }
    return json.dumps(config, indent=2) + "\n"


def write(path: Path, text: str) -> None:
    """Writes a kubeconfig that only the owner can read. Replaces it in one step, for concurrent readers."""
    if path.exists() and path.read_text() == text:
        return
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.rename(path)
