"""The idempotent producers of a log, kept through truncation, retention and restarts.

What is remembered (:class:`~broker.log.idempotence.producer_state.ProducerState`) could be had from
the log alone, but for two things: a start would walk all of it, and retention deletes producers'
last batches. So the state is written to a snapshot whenever a segment begins and when the log is
closed, and made again from the latest snapshot that is not above the log's end and the batches
behind it. A snapshot that cannot be read is passed over: the one before, or the log, knows too.
"""

import logging
from collections.abc import Callable, Collection, Iterable

from ackproof.broker.log.disk.files import Directory
from ackproof.broker.log.disk.steps import Steps, carry_out
from ackproof.broker.log.idempotence.producer_snapshots import CorruptSnapshot, Snapshots, encode
from ackproof.broker.log.idempotence.producer_state import ProducerState
from ackproof.broker.wire.batch import RecordBatch

logger = logging.getLogger(__name__)

BatchesFrom = Callable[[int], Iterable[RecordBatch]]
"""The batches of a log from the one that holds an offset on."""


class LogProducers:
    """Producer state of one log; ``state`` is replaced when the log loses its end."""

    def __init__(self, directory: Directory) -> None:
        """Knows nobody until ``load``."""
        self.state = ProducerState()
        self._directory = directory
        self._snapshots = Snapshots(directory)

    def load(self, bases: Collection[int], end: int, batches_from: BatchesFrom) -> None:
        """Finds out who has written to a log that ends at ``end``.

        Args:
            bases: where the segments begin. Only snapshots from there and the latest are kept.
        """
        # A snapshot of 20, with the log cut to 10 and grown past 20 again, would answer a producer
        # that repeats itself with offsets that hold other records now.
        self._snapshots.remove(lambda offset: offset > end)
        found = self._latest()
        self._snapshots.remove(lambda offset: offset not in bases and offset != found)
        for batch in batches_from(min(bases) if found is None else found):
            self.state.note(batch)

    def snapshot(self, end: int) -> None:
        """Writes the state down; everything below ``end`` must be durable and noted."""
        carry_out(self.snapshot_steps(end, self.encoded()))

    def encoded(self) -> bytes:
        """The state as it is now, for ``snapshot_steps``."""
        return encode(self.state)

    def snapshot_steps(self, end: int, content: bytes) -> Steps:
        """Writes down what the state was at ``end``, below which everything must be durable."""
        if not self.has_snapshot(end):
            yield from self._snapshots.write_steps(end, content)

    def has_snapshot(self, offset: int) -> bool:
        """Whether the state at ``offset`` is written down."""
        return offset in self._snapshots.offsets

    def forget_segments(self, bases: Collection[int]) -> None:
        """Removes the snapshots of segments that are gone; the producers stay."""
        self._snapshots.remove(lambda offset: offset in bases)

    def clear(self) -> None:
        """Forgets everyone, on disk as well."""
        self.state = ProducerState()
        self._snapshots.remove(lambda _: True)

    def _latest(self) -> int | None:
        """Takes over the latest snapshot; returns its offset, None when there is none."""
        self.state = ProducerState()
        for offset in reversed(self._snapshots.offsets):
            try:
                self.state = self._snapshots.read(offset)
            except CorruptSnapshot as error:
                logger.warning("%s/%020d.snapshot: %s", self._directory.path, offset, error)
                self._snapshots.remove(lambda bad, offset=offset: bad == offset)  # type: ignore[misc]
            else:
                return offset
        return None
