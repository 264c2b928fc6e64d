"""What a loop asks of its network: those connections that asyncio opens."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

Factory = Callable[[], asyncio.BaseProtocol]


class Connections(Protocol):
    """Transport and protocol of each, as asyncio's own loop answers."""

    def attach(self, factory: Factory, accepted: Any, /) -> tuple[Any, Any]:
        """What ``loop.connect_accepted_socket`` does, of what ``loop.sock_accept`` gave."""

    async def connect(self, factory: Factory, host: str, port: int, /) -> tuple[Any, Any]:
        """What ``loop.create_connection`` does. Raises OSError."""
