"""**RepetitionsAreWhole**: a batch that is sent once more waits for all of itself: from its first
record, where it stands in the log, to behind its last one.

With acks=all whoever waits for one offset too few is answered before all of the ISR have the last
record. That is in the log of the leader alone, and which of the two comes first, the answer or the
leader's death, is a matter of luck.
"""

from ackproof.broker.replication.events import Event, Produce
from ackproof.broker.wire.batch import RecordBatch
from simulation.partition.shadow import Extent, Shadow
from simulation.violation import Violation


def stepped(name: str, log: Shadow, event: Event) -> None:
    """A replica whose ``log`` is that has taken ``event`` in; raises Violation."""
    if type(event) is not Produce or event.appended is None:
        return
    base, end = event.appended
    found = next(log.between(base, log.end), None)
    (batch,) = event.batches
    assert isinstance(batch, RecordBatch)
    is_there = found is not None and found.base <= base  # else it was deleted since
    if found is not None and is_there and not _is(found, batch, base, end):
        what = f"what a producer repeats is said to be {base} to {end}, and there"
        raise Violation("RepetitionsAreWhole", f"{name}: {what} is {found}")


def _is(found: Extent, batch: RecordBatch, base: int, end: int) -> bool:
    """Repetitions are known by their numbers; so is this one, since bytes are as good as these."""
    numbers = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    there = (found.producer, found.producer_epoch, found.sequence)
    return (found.base, found.next) == (base, end) and there == numbers
