"""Things that are done again and again."""

import asyncio
from collections.abc import Callable


async def every(interval_ms: int, action: Callable[[], None]) -> None:
    """Does ``action`` each ``interval_ms``, for ever; its errors are the caller's."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        action()
