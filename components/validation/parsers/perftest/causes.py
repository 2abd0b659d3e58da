"""Why a perftest run failed, from its own messages."""

import re

_CAUSES = (
    (r"Unable to find the Infiniband/RoCE device|Did not detect devices", "the RDMA device is not there"),
    (r"Port number [0-9]+ state is Down", "the port is down: cable, switch port or link setting"),
    (r"Couldn't connect to", "the server's port did not answer: no route on the rail, or a firewall"),
    (r"Couldn't listen to port|Address already in use", "the port is taken: another test is running"),
    (
        r"(?s)^(?=.*allocated GPU buffer)(?=.*(failed to create mr|Couldn't allocate MR))",
        "the NIC cannot register GPU memory: no nvidia_peermem, and no DMA-BUF of kernel, GPU driver and perftest",
    ),
    (r"Couldn't allocate MR|Cannot allocate memory", "memory could not be registered: raise the memlock limit"),
    (r"GID types", "the ends use different RoCE versions"),
    (r"Failed to exchange data|Incompatibility|mismatch: local", "the two ends disagree: same perftest on both?"),
    (
        r"Failed status(?: 12\b|-[^(\n]*\(12\))|status 12\b",
        "retries exceeded: path MTU, VLAN, PFC or a filter on UDP 4791",
    ),
    (r"Failed status(?: 13\b|-[^(\n]*\(13\))|status 13\b", "receiver not ready"),
    (r"Completion with error|Failed status", "a completion with an error: packets of this path are lost"),
)


def cause_of(stderr: str) -> str | None:
    """The most likely cause of a failed run, from perftest's own messages."""
    return next((cause for pattern, cause in _CAUSES if re.search(pattern, stderr)), None)
