"""Narrow and slow links: packets wait where they leave the node, in queues of ``tc``.

A queueing discipline of the agent (htb) replaces the default one of each interface concerned. It
has a class for each peer. Packets that the rules (:mod:`infra.agent.rules`) do not mark for a class
pass by. The rate of a class makes a link narrow. ``netem`` makes it slow if the kernel has that.
Otherwise a standing queue does: packets without a receiver, behind which all others must wait. That
makes a link narrow, too: see :func:`queueing_rate`.
"""

import fcntl
import json
import os
import re
import socket
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ackproof.infra.agent import privilege
from ackproof.infra.agent.impairments import Active
from ackproof.infra.agent.wire import RefusedByNode

_DISCARD_PORT = 9
_MESSAGE = bytes(8192)
_MESSAGE_ON_THE_WIRE = 8192 + 8 + 6 * 34
"""The bytes of a message on the wire.

It takes six packets of 1500 bytes. Each has an IP and an Ethernet header, and the first has the UDP
header.
"""
_LOOK_EVERY_S = 0.005
_REAL_TIME = 1  # the lowest priority of those that do not wait for other threads
_OUTGOING_QUEUE = 0x5411  # TIOCOUTQ, which Linux calls SIOCOUTQ of a socket


class QueueFiller:
    """A sender that keeps ``depth_bytes`` waiting on the way to ``address`` until it is closed.

    They wait when the constructor returns, if there is a queue. The kernel reports how much a
    socket has sent that has not left the queue. It counts more bytes than are on the wire. The
    first messages show how many more.
    """

    def __init__(self, address: str, depth_bytes: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._there = (address, _DISCARD_PORT)
        self._messages = -(-depth_bytes // _MESSAGE_ON_THE_WIRE) + 1
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._accounted = 1
        self._fill()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_full, name="filler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sending. Idempotent."""
        self._closing.set()
        self._thread.join()
        self._socket.close()

    def _keep_full(self) -> None:
        # Behind five other processes on two cores it would wake up to 70 ms late, and half of the
        # queue would be gone.
        with suppress(OSError):  # without the privilege
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_REAL_TIME))
        while not self._closing.wait(_LOOK_EVERY_S):
            self._fill()

    def _fill(self) -> None:
        # The number of messages is limited: without a queue none waits, and the loop would never
        # end.
        for _ in range(self._messages):
            before = self._waiting()
            if before >= self._messages * self._accounted or not self._send():
                break
            self._accounted = max(self._accounted, self._waiting() - before)

    def _waiting(self) -> int:
        """Return the bytes that wait, as the kernel counts them."""
        waiting = fcntl.ioctl(self._socket, _OUTGOING_QUEUE, bytes(4))
        return int(struct.unpack("i", waiting)[0])

    def _send(self) -> bool:
        """Send a message. Return whether there was room and a route."""
        try:
            self._socket.sendto(_MESSAGE, self._there)
        except OSError:
            return False
        return True


# --- queues -----------------------------------------------------------------------------------


Peer = tuple[str, ...]
"""The addresses of a peer."""

BY_QUEUEING = "bfifo limit 1000000"
"""A queue with room for a standing queue and for the packets that wait behind it."""
_NARROW = "bfifo limit 131072"
"""A queue with room for two packets of 64 KiB, their size before they are segmented."""

_HANDLE = "ac00:"
_FIRST_CLASS = 0x10
_UNHINDERED_KBIT = 10_000_000
_STANDING_BYTES = 200_000
"""The bytes of a standing queue: the default limit of what one socket may have under way."""
_STANDING_KBIT_MAX = 8_000
_ROOT = re.compile(r"qdisc (\S+) (\S+) dev (\S+) root")


class PeerQueue(NamedTuple):
    """The queue on the way to one peer.

    ``kbit`` is kilobits a second, or None without a limit. ``delay_ms`` is the wait of each packet,
    or 0 for none.
    """

    kbit: int | None
    delay_ms: int


def queueing_rate(queue: PeerQueue) -> int:
    """Return the kilobits a second of a class that a standing queue makes slow.

    The longer the wait, the narrower the class, since the length of the queue is limited.
    """
    most = min(_STANDING_KBIT_MAX, _STANDING_BYTES * 8 // _standing_ms(queue.delay_ms))
    return most if queue.kbit is None else min(most, queue.kbit)


def _standing_ms(delay_ms: int) -> int:
    """Return the length of a standing queue in milliseconds.

    The margin keeps it longer than ``delay_ms`` even if its filler is late.
    """
    return delay_ms + delay_ms // 4 + 40


class Queues:
    """The queues of this node. Not thread-safe."""

    def __init__(self) -> None:
        self._classes: dict[Peer, int] = {}
        self._on: dict[Peer, PeerQueue] = {}
        self._fillers: dict[Peer, QueueFiller] = {}

    def marks(self) -> Mapping[Peer, str]:
        """Return the class for packets to each peer, for the rules."""
        return {peer: f"{_HANDLE}{self._classes[peer]:x}" for peer in self._on}

    def put(self, peer: Peer, queue: PeerQueue) -> None:
        """Make the queue for packets to ``peer``, or change it. Raises Refused.

        A standing queue of before goes on until :meth:`fill`, so that a link that stays slow is
        never quick meanwhile.
        """
        number = self._classes.setdefault(peer, _FIRST_CLASS + len(self._classes))
        self._on[peer] = queue  # first, so that a half-made queue is undone, too
        by_queueing = _by_queueing(queue)
        rate = queueing_rate(queue) if by_queueing else queue.kbit or _UNHINDERED_KBIT
        leaf = _NARROW
        if queue.delay_ms:
            leaf = BY_QUEUEING if by_queueing else f"netem limit 100000 delay {queue.delay_ms:d}ms"
        for device in _devices(peer):
            if not _ours(device):
                _tc(f"qdisc replace dev {device} root handle {_HANDLE} htb default 0")
            _tc(
                f"class replace dev {device} parent {_HANDLE} classid {_HANDLE}{number:x} "
                f"htb rate {rate:d}kbit quantum 1514",
                f"qdisc replace dev {device} parent {_HANDLE}{number:x} {leaf}",
            )

    def fill(self, peer: Peer) -> None:
        """Let packets to ``peer`` wait behind others from now on, if its queue asks for that.

        Messages are sent only when the rules mark them: the others would flood the peer.
        """
        queue = self._on[peer]
        before = self._fillers.pop(peer, None)
        if _by_queueing(queue):
            depth = queueing_rate(queue) * _standing_ms(queue.delay_ms) // 8
            self._fillers[peer] = QueueFiller(peer[0], depth)
        if before is not None:
            before.close()

    def drop(self, peer: Peer) -> None:
        """Undo :meth:`put`. Idempotent. With the last queue, the default discipline returns."""
        self.rest(peer)
        if self._on.pop(peer, None) is None:
            return
        still = {device for other in self._on for device in _devices(other)}
        for device in _devices(peer):
            if device in still:
                _tc(f"class delete dev {device} classid {_HANDLE}{self._classes[peer]:x}")
            else:
                _tc(f"qdisc delete dev {device} root")

    def rest(self, peer: Peer) -> None:
        """Stop sending messages to a peer: without a queue they would flood it. Idempotent."""
        if (filler := self._fillers.pop(peer, None)) is not None:
            filler.close()


def remove() -> None:
    """Remove what a :class:`Queues` has made here, of this process or of a dead one. Raises
    Refused."""
    for device, (_kind, handle) in _roots().items():
        if handle == _HANDLE:
            _tc(f"qdisc delete dev {device} root")


def trial(leaf: str = BY_QUEUEING) -> str:
    """Return the commands for ``tc -batch -`` that try a queue and remove it, on an unused
    loopback."""
    return _batch(
        f"qdisc replace dev lo root handle {_HANDLE} htb default 0",
        f"class replace dev lo parent {_HANDLE} classid {_HANDLE}1 htb rate 1mbit",
        f"qdisc replace dev lo parent {_HANDLE}1 {leaf}",
        "qdisc delete dev lo root",
    )


def check() -> None:
    """Raise Refused if narrow links, or slow ones by queueing, are not possible here."""
    _try(BY_QUEUEING)
    for device in _roots():
        _ours(device)


def _by_queueing(queue: PeerQueue) -> bool:
    """Return whether a standing queue makes the link slow."""
    return queue.delay_ms > 0 and not _has_netem()


_netem: list[bool] = []


def _has_netem() -> bool:
    """Return whether the kernel has netem; it is tried once."""
    if not _netem:
        try:
            _try("netem limit 100 delay 1ms")
            _netem.append(True)
        except RefusedByNode:
            _netem.append(False)
    return _netem[0]


def _try(leaf: str) -> None:
    """Raise Refused if the kernel has no such leaf.

    The trial uses a network namespace of its own. If none can be made (in a container), it uses the
    loopback for a moment.
    """
    try:
        privilege.as_root(["unshare", "--net", "true"])
    except RefusedByNode:
        try:
            privilege.as_root(["tc", "-batch", "-"], trial(leaf))
        finally:
            remove()
    else:
        privilege.as_root(["unshare", "--net", "tc", "-batch", "-"], trial(leaf))


def _tc(*lines: str) -> None:
    privilege.as_root(["tc", "-batch", "-"], _batch(*lines))


def _batch(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _devices(peer: Peer) -> Sequence[str]:
    """Return the interfaces by which packets to ``peer`` leave. An address without a route has
    none."""
    found: dict[str, None] = {}
    for address in peer:
        try:
            (route,) = json.loads(privilege.as_root(["ip", "-j", "route", "get", address]))
        except RefusedByNode:
            continue
        found[route["dev"]] = None
    if not found:
        raise RefusedByNode(f"no route to {', '.join(peer)}")
    return list(found)


def _roots() -> Mapping[str, tuple[str, str]]:
    """Return the kind and handle of each interface's discipline."""
    listing = privilege.as_root(["tc", "qdisc", "show"])
    return {device: (kind, handle) for kind, handle, device in _ROOT.findall(listing)}


def _ours(device: str) -> bool:
    """Return whether the discipline of an interface is the agent's.

    Raises Refused if it is of another program: it would not come back. The default ones come back,
    and have the handle 0.
    """
    kind, handle = _roots().get(device, ("none", "0:"))
    if handle not in ("0:", _HANDLE):
        raise RefusedByNode(
            f"{device} has a queueing discipline of its own already ({kind} {handle})"
        )
    return handle == _HANDLE


def asked(active: Iterable[Active]) -> Mapping[Peer, PeerQueue]:
    """Return the queue of each peer for all its narrow and slow links together.

    It has the lowest rate and the longest wait.
    """
    queues: dict[Peer, PeerQueue] = {}
    for peer, (kind, amount, _), *_ in active:
        before = queues.get(peer, PeerQueue(None, 0))
        if kind == "narrow":
            kbit = amount if before.kbit is None else min(before.kbit, amount)
            queues[peer] = PeerQueue(kbit, before.delay_ms)
        else:
            queues[peer] = PeerQueue(before.kbit, max(before.delay_ms, amount))
    return queues
