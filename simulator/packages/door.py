"""Forwards a guest's connection, which QEMU passes as stdin, to a server: `python door.py ADDRESS PORT`.

QEMU starts it for each connection to a forwarded address in the management network.
"""

import os
import socket
import sys
import threading


def carry(one: socket.socket, other: socket.socket) -> None:
    """Copies until one side closes."""
    try:
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        return


def main(address: str, port: str) -> None:
    """Runs until the connection ends."""
    guest = socket.socket(fileno=os.dup(0))
    with guest, socket.create_connection((address, int(port))) as server:
        up = threading.Thread(target=carry, args=(guest, server), daemon=True)
        up.start()
        carry(server, guest)


if __name__ == "__main__":
    main(*sys.argv[1:])
