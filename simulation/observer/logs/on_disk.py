"""What lies in a log when a broker opens it."""

from broker.log.partition_log import PartitionLog
from broker.wire.batch import CorruptBatch, parse_batches
from simulation.partition.shadow import Extent, Shadow
from simulation.violation import Violation

READ_BYTES = 2**31 - 1


def read_shadow(log: PartitionLog) -> Shadow | None:
    """What is really in a log; None: its disk refuses to be read.

    Raises:
        Violation: there are no batches in it, and the broker has opened it all the same.
    """
    extents: list[Extent] = []
    at, end = log.log_start_offset, log.log_end_offset
    try:
        while at < end:
            for batch in parse_batches(log.read(at, READ_BYTES, end), verify_crc=False):
                extents.append(Extent.of(batch))
            at = type(at)(extents[-1].next)
    except OSError:
        return None
    except CorruptBatch as error:  # a ValueError: the broker would take it for a word to refuse
        what = f"{log.directory.name}: behind {at} of {end} there is no batch: {error}"
        raise Violation("LogKept", what) from error
    return Shadow(log.log_start_offset, extents)
