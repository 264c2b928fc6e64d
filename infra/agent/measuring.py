"""Measurements of links by connections of the agent's own.

They find how many connections succeed, how long they take, how much data passes, and the fate of an
open one.
"""

import selectors
import socket
import struct
import threading
import time
from errno import EINPROGRESS


def accepts(address: str, port: int, within: float = 1.0) -> bool:
    """Return whether a new TCP connection succeeds ``within`` seconds.

    The kernel answers for a process that is stopped: a listening port accepts as long as its
    backlog has room.
    """
    try:
        socket.create_connection((address, port), timeout=within).close()
    except OSError:
        return False
    return True


# --- measuring --------------------------------------------------------------------------------


_AT_ONCE = 16
"""The number of new connections at once. More than a listener's backlog has room for are lost."""
_PIECE = bytes(1 << 14)
_WORDS_MAX = 3
"""The bytes, all zero, that are sent at most to learn the state of a connection.

Four would be a length in the protocols of Kafka and ZooKeeper, and would be answered.
"""
_held: dict[str, "_HeldConnection"] = {}
_sinks: dict[str, "_Sink"] = {}


def tries(address: str, port: int, count: int, within: float) -> int:
    """Return how many of ``count`` new connections succeed ``within`` seconds each.

    The kernel repeats its first packet after a second. With a shorter limit, each try depends on
    one packet in each direction.
    """
    return sum(
        _succeed(address, port, min(_AT_ONCE, count - begun), within)
        for begun in range(0, count, _AT_ONCE)
    )


def connecting_ms(address: str, port: int, count: int, within: float) -> list[float]:
    """Return the milliseconds that each of ``count`` new connections takes, one after the other.

    Each is a round trip. Connections that fail are left out.
    """
    taken = []
    for _ in range(count):
        begun = time.monotonic()
        try:
            socket.create_connection((address, port), within).close()
        except OSError:
            continue
        taken.append((time.monotonic() - begun) * 1000)
    return taken


def hold(name: str, address: str, port: int, within: float) -> bool:
    """Open a connection and keep it as ``name`` instead of the one before.

    Return whether it could be opened.
    """
    let_go(name)
    try:
        _held[name] = _HeldConnection(socket.create_connection((address, port), within))
    except OSError:
        return False
    return True


def held(name: str) -> str:
    """Return the state of a connection: ``open``, ``reset``, ``closed`` in the usual way,
    ``none``."""
    there = _held.get(name)
    return "none" if there is None else there.look()


def let_go(name: str) -> None:
    """Close a connection that :func:`hold` opened. Idempotent."""
    if (there := _held.pop(name, None)) is not None:
        there.connection.close()


def sink(name: str, address: str) -> int:
    """Listen for one connection of :func:`pour`, and return the port."""
    _sinks[name] = opened = _Sink(address)
    return opened.port


def pour(address: str, port: int, seconds: float, within: float) -> None:
    """Send as much as the link takes for so many seconds; what has not left then is dropped.

    Raises OSError if no process answers ``within`` seconds.
    """
    with socket.create_connection((address, port), within) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.settimeout(seconds)
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                connection.send(_PIECE)
        except TimeoutError:
            pass


def poured(name: str) -> list[float]:
    """Close a sink, and return the number of bytes that it got, and the seconds that they took."""
    return _sinks.pop(name).close()


class _HeldConnection:
    """A connection that is kept open to watch its state."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._words = 0
        self._state = "open"
        connection.setblocking(False)

    def look(self) -> str:
        if self._state == "open":
            try:
                self._speak()
                self._state = "open" if self.connection.recv(1) else "closed"
            except BlockingIOError:
                pass
            except ConnectionResetError:
                self._state = "reset"
            except OSError as error:
                self._state = str(error.strerror)
        return self._state

    def _speak(self) -> None:
        """Send a byte. A connection on which nothing is sent is not reset."""
        if self._words < _WORDS_MAX:
            self.connection.send(b"\0")
            self._words += 1


class _Sink:
    """A receiver of the data of one connection.

    The first piece is not counted: a narrow link lets a burst pass.
    """

    def __init__(self, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, 0), family=family)
        self.port = int(self._listener.getsockname()[1])
        self._bytes = 0
        self._began: float | None = None
        self._last = 0.0
        threading.Thread(target=self._take, name="sink", daemon=True).start()

    def close(self) -> list[float]:
        self._listener.close()
        seconds = 0.0 if self._began is None else self._last - self._began
        return [float(self._bytes), seconds]

    def _take(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                while piece := connection.recv(1 << 16):
                    self._last = time.monotonic()
                    if self._began is None:
                        self._began = self._last
                    else:
                        self._bytes += len(piece)
        except OSError:  # closed, or reset
            return


def _succeed(address: str, port: int, count: int, within: float) -> int:
    """Return how many of ``count`` simultaneous connections succeed."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with selectors.DefaultSelector() as selector:
        sockets = [socket.socket(family) for _ in range(count)]
        try:
            for one in sockets:
                one.setblocking(False)
                if one.connect_ex((address, port)) == EINPROGRESS:
                    selector.register(one, selectors.EVENT_WRITE)
            return _connected(selector, time.monotonic() + within)
        finally:
            for one in sockets:
                one.close()


def _connected(selector: selectors.BaseSelector, until: float) -> int:
    found = 0
    while selector.get_map() and (left := until - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            selector.unregister(key.fileobj)
            assert isinstance(key.fileobj, socket.socket)
            found += key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    return found
