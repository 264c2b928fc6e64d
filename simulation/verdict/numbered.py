"""What idempotence and timestamps promise of a log that is read in the end.

* **NoDuplicates**: no batch of an idempotent producer is there twice, acked or not.
* **InSequence**: its batches stand in its order, and none is missing between two of them.
* **TimesFound**: who asks for a time is told of the first record that is not older.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ackproof.broker.types import TopicPartition
from simulation.model.history import Sent
from simulation.model.log import Extent
from simulation.violation import Violation


def in_sequence(tp: TopicPartition, log: Sequence[Extent], sent: Mapping[int, Sent]) -> None:
    """Raises Violation. ``sent``: batches by their CRC. What a producer lost with its id, and what
    retention took, is missing at an end, not in between."""
    found: dict[int, Extent] = {}
    follows: dict[int, int] = {}
    for extent in log:
        batch = sent.get(extent.crc)
        if batch is None or not batch.idempotent:
            continue
        if extent.crc in found:
            first = found[extent.crc]
            raise Violation("NoDuplicates", f"{tp}: {first} is there again: {extent}")
        found[extent.crc] = extent
        expected = follows.get(batch.producer, batch.sequence)
        if batch.sequence != expected:
            raise Violation(
                "InSequence",
                f"{tp}: after what comes before {expected} of producer {batch.producer} "
                f"stands {batch.sequence}, at {extent.base}",
            )
        follows[batch.producer] = batch.sequence + batch.count


def times(log: Sequence[Extent]) -> Iterator[tuple[int, int]]:
    """Times to ask for, and the offset that is to be told of: those of the oldest, the middle and
    the youngest batch, and just before.

    All records of a batch are equally old here. Where the log's start may be inside the first
    batch, that one is nobody's answer. Nor does anybody ask for a time below 0, which has another
    meaning: where batches have no timestamps.
    """
    if len(log) < 2:
        return
    for at in sorted({1, len(log) // 2, len(log) - 1}):
        for timestamp in (log[at].timestamp, log[at].timestamp - 1):
            expected = _first_from(log, timestamp)
            if timestamp >= 0 and expected is not None and expected is not log[0]:
                yield timestamp, expected.base


def _first_from(log: Iterable[Extent], timestamp: int) -> Extent | None:
    return next((extent for extent in log if extent.timestamp >= timestamp), None)
