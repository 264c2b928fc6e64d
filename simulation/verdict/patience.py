"""Waiting until nothing is left to complain of, or an order is carried out."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ackproof.broker.server.network.broker_connection import Disconnected
from simulation.clients.administration import Administrator
from simulation.clients.client import PAUSE_S
from simulation.plans.actions import Order
from simulation.violation import Violation

OBEYED_S: Final = 30.0


async def obeyed(administrator: Administrator, order: Order) -> None:
    """Raises Violation when nobody has carried it out in :data:`OBEYED_S`."""
    if not await administrator.obey(order, patience_s=OBEYED_S):
        raise Violation("Serves", f"nobody obeys {order}")


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
