"""**TakenIsWhole**: what a log takes has the checksum that it says.

A producer's network or a leader's disk may garble a batch on its way. Who takes it all the same
cuts his log there at the next recovery, with all that lies behind, or hands it on.
"""

from collections.abc import Iterable

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, parse_batch
from simulation.violation import Violation


def check(log: PartitionLog, batches: Iterable[RecordBatch]) -> None:
    """Of what was appended just now; raises Violation."""
    for batch in batches:
        try:
            parse_batch(batch.raw)
        except CorruptBatch as error:
            raise Violation("TakenIsWhole", f"{log.directory.name} takes it: {error}") from error
