"""One node alone: each NIC writes to itself, and each GPU copies from and to the host's memory."""
