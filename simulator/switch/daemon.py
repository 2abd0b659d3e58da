"""The switch's process: one socket pair per port, one control socket, one thread. `python -m simulator.switch.daemon`.

The sockets are unix datagram sockets, not UDP: a sender waits for a slow receiver instead of losing the frame, and no
other user can inject frames. QEMU makes each NIC's end in the node's folder.
"""

import argparse
import contextlib
import heapq
import itertools
import os
import selectors
import signal
import socket
import time
from collections import deque
from pathlib import Path

from simulator.switch.commands import Commands
from simulator.switch.ports import Delivery, Forwarding, Port

CONTROL = "control.sock"
LARGEST_FRAME_BYTES = 16_384
QUEUE_FRAMES = 1024
"""Queue per node: 4 MiB at RoCE's path MTU of 4 KiB, about as large as a real switch's buffer."""
_BATCH = 32
"""Frames to take from one port before the next port."""


class Cable:
    """The switch's end of a NIC's cable: a socket for receiving, and one for sending while QEMU runs."""

    def __init__(self, port: Port, selector: selectors.BaseSelector) -> None:
        self.port = port
        self.queue: deque[bytes] = deque()
        self._selector = selector
        self._peer = f"../nodes/{port.node}/{port.nic}.sock"
        path = Path(f"{port.name}.sock")
        path.unlink(missing_ok=True)
        self.incoming = _datagram_socket()
        self.incoming.bind(str(path))
        # a separate socket for sending: one connected to a QEMU would refuse the next QEMU
        self._outgoing: socket.socket | None = None

    def send(self, frame: bytes) -> None:
        """Sends a frame, or queues it if the node accepts none at the moment."""
        if self.queue:
            if len(self.queue) >= QUEUE_FRAMES:
                self.port.counters.dropped_full += 1
            else:
                self.queue.append(frame)
        elif not self._sent(frame):
            self.queue.append(frame)
            self._watch(True)

    def flush(self) -> None:
        """Sends queued frames as long as the node accepts them."""
        while self.queue and self._sent(self.queue[0]):
            self.queue.popleft()
        # the socket may be a new one, which is not watched yet
        self._watch(bool(self.queue))

    def drop_queue(self) -> None:
        """Drops queued frames: an unplugged cable delivers nothing."""
        if self.queue:
            self.queue.clear()
            self._watch(False)

    def _sent(self, frame: bytes) -> bool:
        """Whether the frame is done: delivered, or lost because no QEMU runs."""
        for _ in range(2):  # the second attempt is for a new QEMU
            if self._outgoing is None and not self._connect():
                return True
            try:
                self._outgoing.send(frame)  # type: ignore[union-attr]  # _connect has set it
            except BlockingIOError:
                return False
            except OSError:
                self._disconnect()
            else:
                self.port.counters.out_frames += 1
                self.port.counters.out_bytes += len(frame)
                return True
        return True

    def _connect(self) -> bool:
        outgoing = _datagram_socket()
        try:
            outgoing.connect(self._peer)
        except OSError:
            outgoing.close()
            return False
        self._outgoing = outgoing
        return True

    def _disconnect(self) -> None:
        if self._outgoing is not None:
            self._watch(False)
            self._outgoing.close()
            self._outgoing = None

    def _watch(self, enabled: bool) -> None:
        """Watches, or stops watching, for the node to accept frames again."""
        if self._outgoing is None:
            return
        watched = self._outgoing.fileno() in self._selector.get_map()
        if enabled and not watched:
            self._selector.register(self._outgoing, selectors.EVENT_WRITE, self.flush)
        elif watched and not enabled:
            self._selector.unregister(self._outgoing)


class Daemon:
    """Moves frames between cables, and executes commands in between."""

    def __init__(self) -> None:
        self.forwarding = Forwarding()
        self.selector = selectors.EpollSelector()
        self.cables: dict[str, Cable] = {}
        self._late: list[tuple[float, int, Delivery]] = []
        self._order = itertools.count()
        self.commands = Commands(self.forwarding, self.plug_in, lambda port: self.cables[port.name].drop_queue())

    def plug_in(self, port: Port) -> None:
        """Adds a port."""
        self.forwarding.add(port)
        cable = self.cables[port.name] = Cable(port, self.selector)
        self.selector.register(cable.incoming, selectors.EVENT_READ, lambda: self._receive(cable))

    def run(self) -> None:
        """Runs until a signal ends it."""
        Path(CONTROL).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(CONTROL)
            listener.listen(16)
            listener.setblocking(False)
            self.selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))
            while True:
                for key, _ in self.selector.select(self._patience_s()):
                    key.data()
                self._deliver_late()

    def _receive(self, cable: Cable) -> None:
        now_s = time.monotonic()
        with contextlib.suppress(BlockingIOError):
            for _ in range(_BATCH):
                frame = cable.incoming.recv(LARGEST_FRAME_BYTES)
                for delivery in self.forwarding.forward(cable.port, frame, now_s):
                    if delivery.delay_s:
                        heapq.heappush(self._late, (now_s + delivery.delay_s, next(self._order), delivery))
                    else:
                        self.cables[delivery.port.name].send(delivery.frame)

    def _patience_s(self) -> float | None:
        """Time until the next delayed delivery."""
        return max(0.0, self._late[0][0] - time.monotonic()) if self._late else None

    def _deliver_late(self) -> None:
        now_s = time.monotonic()
        while self._late and self._late[0][0] <= now_s:
            delivery = heapq.heappop(self._late)[2]
            if delivery.port.config.plugged:
                self.cables[delivery.port.name].send(delivery.frame)

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.settimeout(5)
        rest = b""

        def answer() -> None:
            nonlocal rest
            try:
                received = connection.recv(65_536)
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    connection.sendall(self.commands.answer(line) + b"\n")
            except OSError:
                received = b""
            if not received:
                self.selector.unregister(connection)
                connection.close()

        self.selector.register(connection, selectors.EVENT_READ, answer)


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def main() -> None:
    """Runs the switch in its state folder until SIGTERM."""
    parser = argparse.ArgumentParser(prog="simulator.switch.daemon", description="The simulator's frame switch.")
    parser.add_argument("folder", type=Path, help="the switch's state folder; the nodes' is beside it")
    os.chdir(parser.parse_args().folder)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    Daemon().run()


if __name__ == "__main__":
    main()
