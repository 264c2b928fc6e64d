"""Acceptance of connections: Kafka's ``max.connections``, and new connections.

At ``max.connections`` no connection is accepted until another closes. New ones wait in the kernel's
queue (``socket.listen.backlog.size``). Above ``max.connections.per.ip`` a new connection is closed
at once. If file descriptors run out, accepting pauses. Not handled: limits and rates per listener
(KIP-402, KIP-612), because there is one listener.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ackproof.broker.config import Listener

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""The pause after the system could not provide a socket."""

NO_LIMIT = 2**31 - 1

Take = Callable[[socket.socket, str], Awaitable[None]]
"""A function that takes a new connection: its socket, and the address it came from."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """``max.connections``, ``max.connections.per.ip`` and its overrides by address."""

    total: int = NO_LIMIT
    per_ip: int = NO_LIMIT
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)

    def of(self, address: str) -> int:
        """Return how many connections may come from ``address``."""
        return self.per_ip_overrides.get(address, self.per_ip)


NO_LIMITS = ConnectionLimits()


class ConnectionQuotas:
    """The counts of open connections."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._left = asyncio.Event()

    @property
    def total(self) -> int:
        """The number of counted connections."""
        return self._by_address.total()

    async def room(self) -> None:
        """Wait until there are fewer than ``max.connections``."""
        while self.total >= self._limits.total:
            self._left.clear()
            await self._left.wait()

    def enter(self, address: str) -> bool:
        """Count one more from ``address``. Return False if that would be one too many."""
        if self._by_address[address] >= self._limits.of(address):
            return False
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count one less from ``address``."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._left.set()


def listening_socket(listener: Listener, backlog: int) -> socket.socket:
    """Return a listening socket. Without a host it listens on every address, with IPv6 if
    available.

    Raises:
        OSError: the address is taken, or none of ours.
    """
    everywhere = not listener.host and socket.has_dualstack_ipv6()
    if everywhere:
        family = socket.AF_INET6
    else:
        ((family, *_), *_) = socket.getaddrinfo(
            listener.host or "0.0.0.0", listener.port, type=socket.SOCK_STREAM
        )
    listening = socket.create_server(
        (listener.host, listener.port),
        family=family,
        backlog=backlog,
        dualstack_ipv6=everywhere,
    )
    listening.setblocking(False)
    return listening


async def accept_forever(listening: socket.socket, quotas: ConnectionQuotas, take: Take) -> None:
    """Accept connections and pass them to ``take``, until cancelled. Whatever takes a connection
    must count it out of the quotas again."""
    loop = asyncio.get_running_loop()
    while True:
        await quotas.room()
        try:
            connection, (host, *_) = await loop.sock_accept(listening)
        except ConnectionAbortedError:
            continue
        except OSError as error:
            logger.warning("Cannot accept connections, trying again: %s", error)
            await asyncio.sleep(RETRY_S)
            continue
        address = _without_mapping(host)
        if not quotas.enter(address):
            logger.info("Closing a connection from %s: it has too many", address)
            connection.close()
            continue
        try:
            await take(connection, address)
        except OSError as error:
            logger.debug("Connection from %s lost at once: %s", address, error)
            connection.close()
            quotas.leave(address)


def _without_mapping(host: str) -> str:
    """Return ``127.0.0.1`` for ``::ffff:127.0.0.1``, which a socket for both families reports."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            return str(address.ipv4_mapped)
    return host
