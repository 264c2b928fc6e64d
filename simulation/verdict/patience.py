"""Waiting until nothing is left to complain of."""

import asyncio
from collections.abc import Awaitable, Callable

from broker.server.network.broker_connection import Disconnected
from simulation.clients.client import PAUSE_S
from simulation.violation import Violation


async def wait(
    invariant: str,
    within_s: float,
    complaint: Callable[[], Awaitable[str | None]],
    pause_s: float = PAUSE_S,
) -> None:
    """Returns when ``complaint`` has none, asked again and again; who does not answer is one.

    Raises Violation of the ``invariant``, with the last complaint, after so many seconds.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while (why := await _said(complaint)) is not None:
        if loop.time() >= end:
            raise Violation(invariant, why)
        await asyncio.sleep(pause_s)


async def _said(complaint: Callable[[], Awaitable[str | None]]) -> str | None:
    try:
        return await complaint()
    except Disconnected as error:
        return f"no answer: {error}"
