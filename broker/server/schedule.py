"""Things that are done again and again, or later."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from broker.log.file_system import REAL, FileSystem

logger = logging.getLogger(__name__)


async def every(interval_ms: int, action: Callable[[], None]) -> None:
    """Does ``action`` each ``interval_ms``, for ever; its errors are the caller's."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        action()


def remove_later(directory: Path, files: FileSystem = REAL) -> None:
    """Removes a directory, off the event loop: a large one takes seconds, in which no request
    would be served. What stays, because the broker ends or the disk says no, goes at the next
    start."""
    done = asyncio.get_running_loop().run_in_executor(None, files.remove_tree, directory)
    done.add_done_callback(_removed)


def _removed(done: "asyncio.Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.error("A deleted partition could not be removed: %s", error)
