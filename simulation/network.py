"""The network between simulated hosts: names, links, latencies and cuts, and TCP on it.

Two hosts have one link for each direction. A link loses packets while it is cut or while one of its
hosts has no power. TCP sends them again: written data waits for the link in its order, and the
connection is reset if that takes too long. A host reaches its own address without a link that could
be cut.

The latency of each packet is ``base_s`` plus a draw from the seed of up to ``jitter_s``. Within one
connection no packet overtakes another.
"""

import asyncio
import collections
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextvars import Context, copy_context
from random import Random
from typing import Any, Protocol, TypeAlias

from simulation.loop import NO_PROCESS, PROCESS, Killed, SimulatedLoop, SimulatedProcess

# --- TCP ------------------------------------------------------------------------------------------
#
# A socket and asyncio's transport in one. A write travels as one segment, which arrives as a step
# of the receiving process. Bytes that were written and not yet read by the other end count as
# buffered. Beyond ``HIGH_BYTES`` the protocol is asked to pause.
#
# If a process dies, its kernel closes its ends of connections. If a host loses power, its ends
# vanish silently, and the other ends stay half-open. A half-open end is reset when the host answers
# its next segment, or when data has waited for ``RESET_AFTER_S``.

# --- links ----------------------------------------------------------------------------------------
#
# One direction between two hosts, and the data that waits while it is down.


class WaitingSender(Protocol):
    """An end of a connection that has data to send on a link that is down."""

    def send_again(self) -> None:
        """Send the waiting data: the link is up."""


class NetworkLink:
    """One direction between two hosts."""

    def __init__(self, loop: SimulatedLoop, random: Random, base_s: float, jitter_s: float) -> None:
        self.base_s = base_s
        self.jitter_s = jitter_s
        self.up = True
        """Whether packets arrive: the link is not cut, and both hosts have power."""
        self.cut = False
        self._loop = loop
        self._random = random
        self._waiting: dict[WaitingSender, None] = {}
        self._held: list[tuple[Callable[..., object], tuple[Any, ...], Context]] = []
        self._last_message = 0.0

    def latency(self) -> float:
        """Return the seconds that the next packet takes."""
        return self.base_s + self.jitter_s * self._random.random()

    def wait(self, endpoint: WaitingSender) -> None:
        """Remember that ``endpoint`` has data to send when the link is up again."""
        self._waiting[endpoint] = None

    def message(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        """Do what :meth:`SimulatedNetwork.delay` describes."""
        if not self.up or self._held:
            self._held.append((callback, args, context))
            return
        self._last_message = max(self._last_message, self._loop.time() + self.latency())
        self._loop.post(self._last_message, callback, args, context)

    def forget_messages(self) -> None:
        """Drop the held messages: one of the hosts lost power."""
        self._held.clear()

    def send_again(self) -> None:
        """Send what waited, unless the link went down again."""
        if not self.up:
            return
        held, self._held = self._held, []
        for message in held:
            self.message(*message)
        waiting, self._waiting = self._waiting, {}
        for endpoint in waiting:
            endpoint.send_again()


Address: TypeAlias = tuple[str, int]

EPHEMERAL_PORTS = 32_768
HIGH_BYTES = 2**18
"""The size of the kernels' buffers and the transport's together. A protocol with more unread bytes
is paused."""
LOW_BYTES = 2**16
RESET_AFTER_S = 120.0
"""The time without any acknowledgement after which a connection is given up. Linux needs a quarter
of an hour (``net.ipv4.tcp_retries2``), which is longer than any run."""

Segment: TypeAlias = bytes | None
"""None marks the end of the stream (FIN)."""


class TcpEndpoint(asyncio.Transport):
    """One end of a connection. It sends on one link, which it belongs to."""

    def __init__(
        self,
        loop: SimulatedLoop,
        local: Address,
        remote: Address,
        link: NetworkLink,
        endpoints: MutableMapping["TcpEndpoint", None],
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.local = local
        self.remote = remote
        self.process: SimulatedProcess | None = None
        self._loop = loop
        self._link = link
        self._endpoints = endpoints
        endpoints[self] = None
        self._peer = self
        self._protocol: Any = None
        self._buffered = False
        self._context = NO_PROCESS
        self._inbox: collections.deque[Segment] = collections.deque()
        self._reading = True
        self._closing = False  # no more reads or writes
        self._is_forgotten = False  # the kernel has forgotten the connection
        self._reset = False
        self._end_sent = False
        self._arrival = 0.0  # when the last segment arrives
        # segments that wait for the link
        self._unsent: collections.deque[Segment] = collections.deque()
        self._timeout: asyncio.TimerHandle | None = None
        self._unacked = 0
        self._unsent_acks = 0  # acknowledgements that wait for the link
        self._paused = False
        self.active_at = loop.time()
        """The last time at which the protocol received bytes, wrote bytes, or had its buffer
        drained."""

    @property
    def host(self) -> str:
        """Return the name of the host."""
        return self.local[0]

    @property
    def was_reset(self) -> bool:
        """Return whether the other end has reset the connection."""
        return self._reset

    def join(self, peer: "TcpEndpoint") -> None:
        """Make the two ends of one connection known to each other."""
        self._peer, peer._peer = peer, self

    def attach(
        self, protocol: asyncio.BaseProtocol, context: Context, process: SimulatedProcess | None
    ) -> None:
        """Deliver what arrives to ``protocol`` from now on, as steps in ``context``."""
        self.process = process
        self.active_at = self._loop.time()
        self._context = context
        self.set_protocol(protocol)
        protocol.connection_made(self)
        if self._reset:
            self._loop.call_soon(self._end, _reset_by_peer(), context=context)
        elif self._inbox:
            self._loop.call_soon(self._drain, context=context)

    # --- requests of the protocol -----------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            if self._inbox:
                self._loop.call_soon(self._drain, context=self._context)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._end_sent or not data:
            return
        self.active_at = self._loop.time()
        self._unacked += len(data)
        self._send(data if type(data) is bytes else bytes(data))
        if self._unacked > HIGH_BYTES and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self._unacked <= HIGH_BYTES:  # the kernel sends the rest
                self._close_now()

    def abort(self) -> None:
        self._closing = True
        self._close_now()

    def _close_now(self) -> None:
        if not self._is_forgotten:
            self._send_end(as_reset=bool(self._inbox))
            self._loop.call_soon(self._end, None, context=self._context)

    # --- sending ----------------------------------------------------------------------------

    def _send(self, segment: Segment) -> None:
        link, peer = self._link, self._peer
        if not link.up or self._unsent:
            self._unsent.append(segment)
            self._wait_for_link()
            return
        when = max(self._loop.time() + link.latency(), self._arrival)
        self._arrival = when
        if peer._protocol is None:
            self._loop.post(when, peer._arrive_early, (segment,), NO_PROCESS)
        else:
            self._loop.post(when, peer._arrive, (segment,), peer._context)

    def _send_end(self, *, as_reset: bool) -> None:
        if as_reset:
            self._send_reset()
        elif not self._end_sent:
            self._send(None)
        self._end_sent = True

    def close_with_reset(self) -> None:
        """Close the connection as ``SO_LINGER`` with a time of 0 does: the other end is reset."""
        self._closing = True
        if not self._is_forgotten:
            self._send_end(as_reset=True)
            self._loop.call_soon(self._end, None, context=self._context)

    def _send_reset(self) -> None:
        """Send a reset once. It is not sent again, because resets are not acknowledged."""
        if self._link.up:
            when = max(self._loop.time() + self._link.latency(), self._arrival)
            self._loop.post(when, self._peer.reset, (_reset_by_peer(),), NO_PROCESS)

    def _wait_for_link(self) -> None:
        self._link.wait(self)
        if self._timeout is None:
            when = self._loop.time() + RESET_AFTER_S
            self._timeout = self._loop.post(when, self._timed_out, (), NO_PROCESS)

    def _timed_out(self) -> None:
        self._unsent.clear()
        self.reset(TimeoutError("connection timed out"))

    def _stop_waiting(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def send_again(self) -> None:
        """Send what waited: the link is up again, or the peer's host is."""
        self._stop_waiting()
        peer = self._peer
        if (
            peer._is_forgotten and not peer._end_sent
        ):  # the peer's host does not know this connection
            self._unsent.clear()
            peer._send_reset()
            return
        unsent_acks, self._unsent_acks = self._unsent_acks, 0
        if unsent_acks:
            peer._acked(unsent_acks)
        unsent, self._unsent = self._unsent, collections.deque()
        for segment in unsent:
            self._send(segment)

    def _acked(self, count: int) -> None:
        self._unacked -= count
        self._stop_waiting()
        if self._is_forgotten:
            return
        if self._closing:
            if self._unacked <= HIGH_BYTES and not self._end_sent:
                self._close_now()
        elif self._paused and self._unacked <= LOW_BYTES:
            self._paused = False
            self._loop.call_soon(self._resume_writing, context=self._context)

    def _resume_writing(self) -> None:
        if not self._closing and not self._paused:
            self.active_at = self._loop.time()
            self._protocol.resume_writing()

    # --- receiving --------------------------------------------------------------------------

    def _arrive_early(self, segment: Segment) -> None:
        """Queue a segment that arrives before there is a protocol, in a step of no process."""
        if self._is_forgotten:
            self._send_reset()
            return
        self._inbox.append(segment)
        if self._protocol is not None:
            self._loop.call_soon(self._drain, context=self._context)

    def _arrive(self, segment: Segment) -> None:
        if self._is_forgotten:
            if segment is not None:
                self._send_reset()
        elif self._inbox or not self._reading:
            self._inbox.append(segment)
        else:
            self._take(segment)

    def _drain(self) -> None:
        while self._inbox and self._reading and not self._closing:
            self._take(self._inbox.popleft())

    def _take(self, segment: Segment) -> None:
        if self._closing:
            return
        try:
            if segment is None:
                if not self._protocol.eof_received():
                    self.close()
            elif self._buffered:
                self._fill(segment)
            else:
                self._read(len(segment))
                self._protocol.data_received(segment)
        except Exception as error:  # noqa: BLE001  as asyncio's transports do
            what = {"message": "a protocol failed", "exception": error}
            self._loop.call_exception_handler(what)
            self.abort()

    def _fill(self, segment: bytes) -> None:
        protocol = self._protocol
        room = protocol.get_buffer(-1)
        size = len(segment)
        while size > len(room):
            count = len(room)
            room[:] = segment[:count]
            segment = segment[count:]
            size -= count
            self._read(count)
            protocol.buffer_updated(count)
            if self._closing:
                return
            if not self._reading:
                self._inbox.appendleft(segment)
                return
            room = protocol.get_buffer(-1)
        room[:size] = segment
        self._read(size)
        protocol.buffer_updated(size)

    def _read(self, count: int) -> None:
        """Acknowledge ``count`` bytes, so that the other end may write more."""
        self.active_at = self._loop.time()
        if self._link.up:
            self._peer._acked(count)
        else:
            self._unsent_acks += count
            self._link.wait(self)
            self._peer._wait_for_link()

    # --- the end ----------------------------------------------------------------------------

    def reset(self, error: OSError) -> None:
        """Mark the connection as broken. The protocol learns it in a step of its own."""
        self._reset = True
        if self._protocol is not None and not self._is_forgotten:
            self._loop.call_soon(self._end, error, context=self._context)

    def _end(self, error: Exception | None) -> None:
        if not self._is_forgotten:
            protocol = self._protocol
            self._forget()
            protocol.connection_lost(error)

    def _forget(self) -> None:
        self._is_forgotten = self._closing = True
        self._endpoints.pop(self, None)
        self._inbox.clear()
        self._context = NO_PROCESS
        if not self._unsent:
            self._stop_waiting()

    def close_by_kernel(self) -> None:
        """Close the connection as a kernel does whose process is dead or never accepted it."""
        if not self._is_forgotten:
            unread = bool(self._inbox)
            self._forget()
            self._protocol = None
            self._send_end(as_reset=unread)

    def vanish(self) -> None:
        """Remove this end: its host lost power."""
        self._forget()
        self._stop_waiting()
        self._unsent.clear()
        self._unsent_acks = 0
        self._protocol = None
        self._peer.peer_vanished()

    def peer_vanished(self) -> None:
        """Start the timeout for unacknowledged data: the other end has vanished and will not
        answer."""
        if not self._is_forgotten and self._unacked:
            self._wait_for_link()


def _reset_by_peer() -> OSError:
    return ConnectionResetError("connection reset by peer")


# --- sockets --------------------------------------------------------------------------------------
#
# Listening and accepted sockets, with the methods that the broker uses.


class ListeningSocket:
    """A socket for ``loop.sock_accept``."""

    def __init__(
        self,
        loop: SimulatedLoop,
        address: Address,
        backlog: int,
        closed: Callable[[Address], object],
    ) -> None:
        self._loop = loop
        self._address = address
        self._backlog = backlog
        self._closed = closed
        self._queue: deque[TcpEndpoint] = deque()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def has_capacity(self) -> bool:
        """Return whether one more client may connect."""
        return len(self._queue) <= self._backlog

    def connected(self, endpoint: TcpEndpoint) -> None:
        """Queue a new connection until it is accepted."""
        self._queue.append(endpoint)
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def accept(self) -> tuple["AcceptedSocket", Address]:
        """Return the next connection, and the address of its client."""
        while not self._queue:
            self._waiter = self._loop.create_future()
            await self._waiter
        endpoint = self._queue.popleft()
        return AcceptedSocket(endpoint), endpoint.remote

    def getsockname(self) -> Address:
        return self._address

    def close(self) -> None:
        """Close the socket, and the connections that were not accepted yet."""
        self._closed(self._address)
        while self._queue:
            self._queue.popleft().close_by_kernel()


class AcceptedSocket:
    """A socket for ``loop.connect_accepted_socket``."""

    __slots__ = ("endpoint",)

    def __init__(self, endpoint: TcpEndpoint) -> None:
        self.endpoint = endpoint

    def close(self) -> None:
        self.endpoint.close_by_kernel()


BASE_S = 0.0002
JITTER_S = 0.0008
LOOPBACK_S = 0.00002

CONNECT_TIMEOUT_S = 127.0
"""Linux gives up after 7 SYNs (``net.ipv4.tcp_syn_retries``), which are 1, 2, 4, ... s apart."""

RETRANSMISSION_S_MAX = 1.0
"""The longest time until TCP notices that a link is up again, in seconds."""


class NoSuchHost(OSError):
    """No host has that name."""


class SimulatedNetwork:
    """All hosts, the links between them, and the listening sockets."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._up: dict[str, bool] = {}
        self._links: dict[tuple[str, str], NetworkLink] = {}
        self._names: dict[str, str] = {}
        self._listening: dict[Address, ListeningSocket] = {}
        self._endpoints: dict[TcpEndpoint, None] = {}
        self._next_port = EPHEMERAL_PORTS
        loop.network = self

    # --- hosts and links --------------------------------------------------------------------

    def add_host(self, name: str) -> None:
        """Add a host with power and with links to all others."""
        self._up.setdefault(name, True)

    def rename(self, host: str, name: str) -> None:
        """Make a host reachable under a new name in addition to its own, and drop its previous new
        name."""
        self._names = {each: of for each, of in self._names.items() if of != host}
        self._names[name] = host

    def link(self, source: str, target: str) -> NetworkLink:
        """Return the link from ``source`` to ``target``. Raises UnknownHost."""
        link = self._links.get((source, target))
        if link is None:
            for host in (source, target):
                if host not in self._up:
                    raise NoSuchHost(f"no host is called {host!r}")
            base_s, jitter_s = (LOOPBACK_S, 0.0) if source == target else (BASE_S, JITTER_S)
            link = NetworkLink(self._loop, self._random, base_s, jitter_s)
            link.up = self._up[source] and self._up[target]
            self._links[source, target] = link
        return link

    def cut(self, source: str, target: str) -> None:
        """Cut the link from ``source`` to ``target``. Packets on their way still arrive."""
        if source == target:
            raise ValueError(f"{source} always reaches itself")
        link = self.link(source, target)
        link.cut = True
        link.up = False

    def heal(self, source: str, target: str) -> None:
        """Heal one link. Data that waited for it is sent again."""
        self.link(source, target).cut = False
        self._restore(source, target)

    def heal_all(self) -> None:
        """Heal every link."""
        for source, target in self._links:
            self.heal(source, target)

    def set_latency(self, source: str, target: str, base_s: float, jitter_s: float) -> None:
        """Set the latency of a link from now on."""
        link = self.link(source, target)
        link.base_s, link.jitter_s = base_s, jitter_s

    def _restore(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if not link.up and not link.cut and self._up[source] and self._up[target]:
            link.up = True
            self._loop.post(
                self._loop.time() + self._random.random() * RETRANSMISSION_S_MAX,
                link.send_again,
                (),
                NO_PROCESS,
            )

    # --- life and death ---------------------------------------------------------------------

    def process_died(self, process: SimulatedProcess) -> None:
        """Close the sockets of a dead process as its kernel does, and inform the other ends."""
        for endpoint in self._endpoints_of(process):
            endpoint.close_by_kernel()
        self._close_listening(process.host)

    def power_lost(self, host: str) -> None:
        """Switch a host off. The other ends of its connections learn nothing."""
        self._up[host] = False
        for (source, target), link in self._links.items():
            if host in (source, target):
                link.up = False
                link.forget_messages()
        for endpoint in tuple(self._endpoints):
            if endpoint.host == host:
                endpoint.vanish()
        self._close_listening(host)

    def power_restored(self, host: str) -> None:
        """Switch a host on. It knows none of its former connections."""
        self._up[host] = True
        for source, target in tuple(self._links):
            if host in (source, target):
                self._restore(source, target)

    def _endpoints_of(self, process: SimulatedProcess) -> Iterator[TcpEndpoint]:
        return iter([e for e in self._endpoints if e.process is process])

    def _close_listening(self, host: str) -> None:
        for address, listening in tuple(self._listening.items()):
            if address[0] == host:
                listening.close()

    # --- connections ------------------------------------------------------------------------

    def listen(self, host: str, port: int, backlog: int) -> ListeningSocket:
        """Listen on ``host``, which must be empty or the caller's own name.

        Raises:
            OSError: The address is in use, or belongs to another host.
        """
        process = _current_process()
        if host not in ("", "0.0.0.0", process.host):
            raise OSError(f"{host} is no address of {process.host}")
        address = (process.host, port or self._free_port())
        if address in self._listening:
            raise OSError(f"{address} is in use")
        listening = ListeningSocket(self._loop, address, backlog, self._close)
        self._listening[address] = listening
        return listening

    def _close(self, address: Address) -> None:
        self._listening.pop(address, None)

    def listens(self, host: str, port: int) -> bool:
        """Return whether a process listens there."""
        return (host, port) in self._listening

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[TcpEndpoint, Any]:
        """Do what ``loop.create_connection`` does.

        Raises:
            ConnectionRefusedError: No process listens there.
            TimeoutError: No answer came within ``CONNECT_TIMEOUT_S``.
            UnknownHost: No host has that name.
        """
        process = _current_process()
        host = self._names.get(host, host)
        local = (process.host, self._free_port())
        there, back = self.link(process.host, host), self.link(host, process.host)
        pause_s = 1.0
        while pause_s < CONNECT_TIMEOUT_S:
            if there.up:
                await asyncio.sleep(there.latency())
                listening = self._listening.get((host, port))
                if back.up and (listening is None or listening.has_capacity):
                    return await self._handshake(factory, process, local, listening, (host, port))
            await asyncio.sleep(pause_s)
            pause_s *= 2
        raise TimeoutError(f"{host}:{port} does not answer")

    async def _handshake(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        process: SimulatedProcess,
        local: Address,
        listening: ListeningSocket | None,
        remote: Address,
    ) -> tuple[TcpEndpoint, Any]:
        there, back = self.link(local[0], remote[0]), self.link(remote[0], local[0])
        if listening is None:
            await asyncio.sleep(back.latency())
            raise ConnectionRefusedError(f"no process listens at {remote[0]}:{remote[1]}")
        ours = TcpEndpoint(self._loop, local, remote, there, self._endpoints)
        theirs = TcpEndpoint(self._loop, remote, local, back, self._endpoints)
        ours.join(theirs)
        ours.process = process
        listening.connected(theirs)
        try:
            await asyncio.sleep(back.latency())
        except BaseException:
            ours.close_by_kernel()
            raise
        protocol = factory()
        ours.attach(protocol, copy_context(), process)
        return ours, protocol

    def attach(
        self, factory: Callable[[], asyncio.BaseProtocol], accepted: AcceptedSocket
    ) -> tuple[TcpEndpoint, Any]:
        """Do what ``loop.connect_accepted_socket`` does.

        Raises:
            ConnectionResetError: The client has reset the connection before it was accepted. A
                kernel may reject every call on such a socket, as BSD kernels reject
                ``TCP_NODELAY``.
        """
        if accepted.endpoint.was_reset:
            raise ConnectionResetError("connection reset by peer")
        protocol = factory()
        accepted.endpoint.attach(protocol, copy_context(), _current_process())
        return accepted.endpoint, protocol

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    # --- messages ---------------------------------------------------------------------------

    def delay(
        self,
        source: str,
        target: str,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> None:
        """Call back when a message from ``source`` has reached ``target``.

        The messages of one direction are one stream, in which none overtakes another. While the
        link is cut they wait for it. Messages to a host that loses power are lost.

        Args:
            context: The context of the receiver. None means that the callback belongs to no
                process.
        """
        link = self.link(source, target)
        link.message(callback, args, NO_PROCESS if context is None else context)


def _current_process() -> SimulatedProcess:
    process = PROCESS.get()
    if process is None:
        raise RuntimeError("only processes have an address: see Process.spawn")
    if process.is_dead:
        raise Killed
    return process
