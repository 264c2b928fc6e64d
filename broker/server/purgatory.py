"""Where fetches wait for data: no polling, woken by the partitions they asked about.

A partition wakes its waiters when its log grew, when its high watermark moved, and when its role
changed. A waiter looks again and may come back. (Kafka's DelayedOperationPurgatory for fetches;
produce requests wait in their replica instead, which knows when they are done.)
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator

from broker.types import TopicPartition


class Watch:
    """Remembers whether one of its partitions was woken since it was last asked."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """A partition has news."""
        self._event.set()

    async def woken(self, timeout_s: float) -> bool:
        """Waits for news; False when ``timeout_s`` went by without."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Purgatory:
    """Watches by partition."""

    def __init__(self) -> None:
        self._watches: dict[TopicPartition, set[Watch]] = {}
        self.waiting = 0
        """How many requests wait."""

    @contextlib.contextmanager
    def watch(self, partitions: Iterable[TopicPartition]) -> Iterator[Watch]:
        """Watches ``partitions`` as long as the context lasts."""
        keys = tuple(partitions)
        watch = Watch()
        for key in keys:
            self._watches.setdefault(key, set()).add(watch)
        self.waiting += 1
        try:
            yield watch
        finally:
            self.waiting -= 1
            for key in keys:
                self._forget(key, watch)

    def wake(self, partition: TopicPartition) -> None:
        """Lets everyone who watches ``partition`` look again."""
        for watch in self._watches.get(partition, ()):
            watch.wake()

    def _forget(self, key: TopicPartition, watch: Watch) -> None:
        watches = self._watches.get(key, set())
        watches.discard(watch)
        if not watches:
            self._watches.pop(key, None)
