"""The switch's process: one socket pair a port, one control socket, one thread. `python -m simulator.switch.daemon`.

The sockets are unix datagram sockets, not UDP: a sender whose receiver is behind waits instead of losing the frame, and
nobody else on the machine can inject frames. Each NIC's end is made by QEMU in the node's folder.
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
"""Frames that wait for one node: at RoCE's 4 KiB path MTU 4 MiB, the order of a real switch's buffer."""
_BATCH = 32
"""Frames taken from one port before the others get their turn."""


class Cable:
    """The switch's end of a NIC's cable: a socket to receive by, and one to send by when QEMU is there."""

    def __init__(self, port: Port, selector: selectors.BaseSelector) -> None:
        self.port = port
        self.queue: deque[bytes] = deque()
        self._selector = selector
        self._peer = f"../nodes/{port.node}/{port.nic}.sock"
        path = Path(f"{port.name}.sock")
        path.unlink(missing_ok=True)
        self.incoming = _datagram_socket()
        self.incoming.bind(str(path))
        # a socket of its own for sending: one that is connected to a QEMU would refuse that QEMU's successor
        self._outgoing: socket.socket | None = None

    def send(self, frame: bytes) -> None:
        """Sends a frame now, or queues it when the node takes none at the moment."""
        if self.queue:
            if len(self.queue) >= QUEUE_FRAMES:
                self.port.counters.dropped_full += 1
            else:
                self.queue.append(frame)
        elif not self._sent(frame):
            self.queue.append(frame)
            self._watch(True)

    def flush(self) -> None:
        """Sends what waits, as far as the node takes it."""
        while self.queue and self._sent(self.queue[0]):
            self.queue.popleft()
        # the socket may be another one by now, which is not watched yet
        self._watch(bool(self.queue))

    def drop_queue(self) -> None:
        """Forgets what waits: a pulled cable delivers nothing."""
        if self.queue:
            self.queue.clear()
            self._watch(False)

    def _sent(self, frame: bytes) -> bool:
        """Whether the frame is dealt with: delivered, or lost because no QEMU is there."""
        for _ in range(2):  # the second time for a QEMU that was started since
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

    def _watch(self, wanted: bool) -> None:
        """Asks to be told when the node takes frames again."""
        if self._outgoing is None:
            return
        watched = self._outgoing.fileno() in self._selector.get_map()
        if wanted and not watched:
            self._selector.register(self._outgoing, selectors.EVENT_WRITE, self.flush)
        elif watched and not wanted:
            self._selector.unregister(self._outgoing)


class Daemon:
    """Moves frames between cables, and answers commands between frames."""

    def __init__(self) -> None:
        self.forwarding = Forwarding()
        self.selector = selectors.EpollSelector()
        self.cables: dict[str, Cable] = {}
        self._late: list[tuple[float, int, Delivery]] = []
        self._order = itertools.count()
        self.commands = Commands(self.forwarding, self.plug_in, lambda port: self.cables[port.name].drop_queue())

    def plug_in(self, port: Port) -> None:
        """Makes a port that was added."""
        self.forwarding.add(port)
        cable = self.cables[port.name] = Cable(port, self.selector)
        self.selector.register(cable.incoming, selectors.EVENT_READ, lambda: self._receive(cable))

    def run(self) -> None:
        """Runs until it is ended by a signal."""
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
        """Until when nothing needs to be done by itself."""
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
