"""What to do about a host whose command failed: a pure function of what the command provider said."""

from stacks.nodes import Node

CAUSES = (
    (("host key mismatch", "host key"), "answers with another host key than access.known_hosts_file; nothing was sent"),
    (("unable to authenticate", "no supported methods"), "refuses the login: wrong user or private key"),
    (("connection refused",), "refuses the connection: is sshd running there?"),
    (("no route to host", "network is unreachable"), "cannot be reached: no route"),
    (("i/o timeout", "deadline exceeded"), "does not answer"),
    (("a password is required", "sudo:"), "lets its user run nothing as root: sudo without a password is needed"),
    (("python3: not found", "python3: command not found", "No such file"), "has no python3"),
)
"""Words in the provider's error, and what they mean; the first that fits counts."""


def remedy(node: Node, error: str) -> str:
    """One line with host, address, cause and the two ways on."""
    cause = next((text for words, text in CAUSES if any(word.lower() in error.lower() for word in words)), None)
    said = cause or f"failed: {' '.join(error.split())[:200]}"
    return (
        f"nodes.{node.name}: {node.name} ({node.address}:{node.ssh_port}) {said}. Mend it and run again, "
        f"or set nodes.{node.name}.state: drained to go on without it"
    )
