"""**FlushedAsSet**: no more records wait for the disk than ``flush.messages`` says, nor longer than
``flush.ms``.

Whoever sets them wants a power failure of all replicas to take no more than that. Judged by the
recovery point, of which FlushedIsSynced says that it is true: what was appended when the append is
over; what has waited too long when the broker has looked at it and no flush is under way.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ackproof.broker.log.disk.steps import Steps
from ackproof.broker.log.flushing import Flushing
from ackproof.broker.log.partition_log import PartitionLog
from simulation.violation import Violation


class _Appended(NamedTuple):
    """In one append."""

    begin: int
    end: int
    at_ms: int


_Waiting = deque[_Appended]


class Unflushed:
    """What waits in which log, by the appends that were seen."""

    def __init__(self) -> None:
        self._waiting: WeakKeyDictionary[PartitionLog, _Waiting] = WeakKeyDictionary()
        self._under_way: WeakKeyDictionary[Flushing, int] = WeakKeyDictionary()

    def appended(self, log: PartitionLog, begin: int, now_ms: int) -> None:
        """What lies from ``begin`` on, just now; raises Violation."""
        waiting = self._waiting.setdefault(log, deque())
        _cut(waiting, begin)
        waiting.append(_Appended(begin, log.log_end_offset, now_ms))
        unflushed, most = log.log_end_offset - log.recovery_point, log.config.flush_messages
        if unflushed >= most:
            what = f"{unflushed} records wait for the disk, flush.messages is {most}"
            raise Violation("FlushedAsSet", f"{log.directory.name}: {what}")

    def looked(self, log: PartitionLog, now_ms: int) -> None:
        """The broker has begun to flush it if that is due; raises Violation."""
        waiting = self._waiting.get(log)
        if not waiting or log.flushing.failed or self._under_way.get(log.flushing):
            return
        _cut(waiting, log.log_end_offset)
        while waiting and waiting[0].end <= log.recovery_point:
            waiting.popleft()
        if waiting and now_ms - waiting[0].at_ms >= log.config.flush_ms:
            oldest = waiting[0]
            what = f"offset {oldest.begin} waits for the disk for {now_ms - oldest.at_ms} ms"
            what = f"{what} and nobody flushes it, flush.ms is {log.config.flush_ms}"
            raise Violation("FlushedAsSet", f"{log.directory.name}: {what}")

    def counted(self, original: Callable[[Flushing, int], Steps]) -> Callable[..., Steps]:
        """The same flush, of which is known that it is under way from when it is asked for."""

        def flush(self_: Flushing, end: int) -> Steps:
            self._under_way[self_] = self._under_way.get(self_, 0) + 1
            return carried_out(self_, end)

        def carried_out(self_: Flushing, end: int) -> Steps:
            try:
                yield from original(self_, end)
            finally:
                self._under_way[self_] -= 1

        return flush


def _cut(waiting: _Waiting, end: int) -> None:
    while waiting and waiting[-1].begin >= end:
        waiting.pop()
    if waiting and waiting[-1].end > end:
        waiting.append(waiting.pop()._replace(end=end))
