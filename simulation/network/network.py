"""The network between simulated hosts: names, links, latencies and cuts.

Two hosts have one link for each direction. A link loses packets while it is cut or while one of its
hosts has no power. TCP sends them again: written data waits for the link in its order, and the
connection is reset if that takes too long (:mod:`simulation.network.tcp`). A host reaches its own
address without a link that could be cut.

The latency of each packet is ``base_s`` plus a draw from the seed of up to ``jitter_s``. Within one
connection no packet overtakes another.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from random import Random
from typing import Any

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NO_PROCESS, PROCESS, Killed, SimulatedProcess
from simulation.network.tcp import EPHEMERAL_PORTS, Address, NetworkLink, TcpEndpoint

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


# --------------------------------------------------------------------------------------------------

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

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether the link is cut."""
        return self.link(source, target).cut

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
