"""Nodes: Debian machines under QEMU with SR-IOV NICs, soft-RoCE, a real sshd and real reboots."""
