"""A standing queue: packets that nobody wants, for others to wait behind."""

import fcntl
import socket
import struct
import threading

_DISCARD_PORT = 9
_MESSAGE = bytes(8192)
_MESSAGE_ON_THE_WIRE = 8192 + 8 + 6 * 34
"""It takes six packets of 1500 bytes: each has an IP and an Ethernet header, the first UDP's."""
_LOOK_EVERY_S = 0.005
_OUTGOING_QUEUE = 0x5411  # TIOCOUTQ, which Linux calls SIOCOUTQ of a socket


class Filler:
    """Keeps ``depth_bytes`` waiting on the way to ``address``, until it is closed.

    The kernel tells what of a socket's has not left the queue yet, as it accounts for it: more than
    is on the wire. How much more, the first messages tell.
    """

    def __init__(self, address: str, depth_bytes: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._there = (address, _DISCARD_PORT)
        self._messages = -(-depth_bytes // _MESSAGE_ON_THE_WIRE) + 1
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="filler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Idempotent."""
        self._closing.set()
        self._thread.join()
        self._socket.close()

    def _fill(self) -> None:
        accounted = 1
        while not self._closing.wait(_LOOK_EVERY_S):
            # Where nothing waits, since the queue is not there yet, it would send for ever.
            for _ in range(self._messages):
                before = self._waiting()
                if before >= self._messages * accounted or not self._send():
                    break
                accounted = max(accounted, self._waiting() - before)

    def _waiting(self) -> int:
        """As the kernel accounts for it."""
        told = fcntl.ioctl(self._socket, _OUTGOING_QUEUE, bytes(4))
        return int(struct.unpack("i", told)[0])

    def _send(self) -> bool:
        """False when there is no room, or no way."""
        try:
            self._socket.sendto(_MESSAGE, self._there)
        except OSError:
            return False
        return True
