"""Narrow and slow links: packets wait where they leave the node, in queues of ``tc``.

One queueing discipline of ours (htb) takes the place of the default one of each interface that is
concerned, and has a class for each peer; what the rules (:mod:`infra.agent.rules`) do not mark for
one of them passes by. A class is as narrow as it is told. It is slow by ``netem`` where the kernel
has that. Else by queueing: a standing queue of packets that nobody wants, which everything else has
to wait behind. That makes a link narrow, too: see :func:`queueing_rate`."""

import fcntl
import json
import re
import socket
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ackproof.infra.agent import privilege
from ackproof.infra.agent.impairments import Active
from ackproof.infra.agent.wire import Refused

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


# --- queues -----------------------------------------------------------------------------------


Peer = tuple[str, ...]
"""A peer's addresses."""

BY_QUEUEING = "bfifo limit 1000000"
"""With room for a standing queue, and for what waits behind it."""
_NARROW = "bfifo limit 131072"
"""With room for two packets of 64 KiB, which is what they have before they are segmented."""

_HANDLE = "ac00:"
_FIRST_CLASS = 0x10
_UNHINDERED_KBIT = 10_000_000
_STANDING_BYTES = 200_000
"""Of a standing queue: what one socket may have under way, by the kernel's default."""
_STANDING_KBIT_MAX = 8_000
_ROOT = re.compile(r"qdisc (\S+) (\S+) dev (\S+) root")


class Queue(NamedTuple):
    """What is asked of the way to one peer. ``kbit``: kilobits a second, None for as wide as it
    is. ``delay_ms``: what each packet waits, 0 for none."""

    kbit: int | None
    delay_ms: int


def queueing_rate(queue: Queue) -> int:
    """Kilobits a second of a class that is slow by its standing queue: the longer the wait, the
    narrower, for the queue has one length."""
    most = min(_STANDING_KBIT_MAX, _STANDING_BYTES * 8 // _standing_ms(queue.delay_ms))
    return most if queue.kbit is None else min(most, queue.kbit)


def _standing_ms(delay_ms: int) -> int:
    """How long a standing queue is to be, so that it is never shorter than ``delay_ms`` though who
    fills it may be late."""
    return delay_ms + delay_ms // 4 + 20


class Queues:
    """The queues of this node. Not thread-safe."""

    def __init__(self) -> None:
        self._classes: dict[Peer, int] = {}
        self._on: dict[Peer, Queue] = {}
        self._fillers: dict[Peer, Filler] = {}

    def marks(self) -> Mapping[Peer, str]:
        """By peer, the class for what goes there: for the rules."""
        return {peer: f"{_HANDLE}{self._classes[peer]:x}" for peer in self._on}

    def put(self, peer: Peer, queue: Queue) -> None:
        """What goes to ``peer`` waits in ``queue`` from now on. Raises Refused."""
        number = self._classes.setdefault(peer, _FIRST_CLASS + len(self._classes))
        self.rest(peer)
        self._on[peer] = queue  # first: what is done half-way is undone, too
        by_queueing = queue.delay_ms > 0 and not _has_netem()
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
        if by_queueing:
            self._fillers[peer] = Filler(peer[0], rate * _standing_ms(queue.delay_ms) // 8)

    def drop(self, peer: Peer) -> None:
        """Undo :meth:`put`. Idempotent. With the last one the default discipline is back."""
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
        """Send nothing of our own any more: with no queue to go through it would be a flood.
        Idempotent."""
        if (filler := self._fillers.pop(peer, None)) is not None:
            filler.close()


def remove() -> None:
    """Remove whatever a :class:`Queues` has put here, of this process or of a dead one. Raises
    Refused."""
    for device, (_kind, handle) in _roots().items():
        if handle == _HANDLE:
            _tc(f"qdisc delete dev {device} root")


def trial(leaf: str = BY_QUEUEING) -> str:
    """For ``tc -batch -`` on a loopback that nobody uses: what it takes, and takes it away."""
    return _batch(
        f"qdisc replace dev lo root handle {_HANDLE} htb default 0",
        f"class replace dev lo parent {_HANDLE} classid {_HANDLE}1 htb rate 1mbit",
        f"qdisc replace dev lo parent {_HANDLE}1 {leaf}",
        "qdisc delete dev lo root",
    )


def check() -> None:
    """Raises Refused with what stands against narrow links, and slow ones by queueing."""
    _try(BY_QUEUEING)
    for device in _roots():
        _ours(device)


_netem: list[bool] = []


def _has_netem() -> bool:
    """Tried once."""
    if not _netem:
        try:
            _try("netem limit 100 delay 1ms")
            _netem.append(True)
        except Refused:
            _netem.append(False)
    return _netem[0]


def _try(leaf: str) -> None:
    """Raises Refused when there is no such leaf. In a network namespace of its own; where none can
    be had (a container), on the loopback for a moment."""
    try:
        privilege.as_root(["unshare", "--net", "true"])
    except Refused:
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
    """The interfaces by which packets to ``peer`` leave. An address without a route has none."""
    found: dict[str, None] = {}
    for address in peer:
        try:
            (route,) = json.loads(privilege.as_root(["ip", "-j", "route", "get", address]))
        except Refused:
            continue
        found[route["dev"]] = None
    if not found:
        raise Refused(f"no route to {', '.join(peer)}")
    return list(found)


def _roots() -> Mapping[str, tuple[str, str]]:
    """By interface, kind and handle of its discipline."""
    told = privilege.as_root(["tc", "qdisc", "show"])
    return {device: (kind, handle) for kind, handle, device in _ROOT.findall(told)}


def _ours(device: str) -> bool:
    """Whether its discipline is ours. Raises Refused when it is somebody else's: it would not come
    back. The default ones, which do, have the handle 0:"""
    kind, handle = _roots().get(device, ("none", "0:"))
    if handle not in ("0:", _HANDLE):
        raise Refused(f"{device} has a queueing discipline of its own already ({kind} {handle})")
    return handle == _HANDLE


def asked(active: Iterable[Active]) -> Mapping[Peer, Queue]:
    """What narrow and slow links ask of each peer's queue together: the narrowest, and the longest
    wait."""
    queues: dict[Peer, Queue] = {}
    for peer, (kind, amount, _), *_ in active:
        before = queues.get(peer, Queue(None, 0))
        if kind == "narrow":
            kbit = amount if before.kbit is None else min(before.kbit, amount)
            queues[peer] = Queue(kbit, before.delay_ms)
        else:
            queues[peer] = Queue(before.kbit, max(before.delay_ms, amount))
    return queues
