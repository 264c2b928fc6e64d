"""Reads a partition of ``__consumer_offsets`` from its log, for the broker that now leads it."""

import asyncio
import logging
from collections.abc import Iterable

from ackproof.broker.groups.loading import Loading
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, parse_batches
from ackproof.broker.wire.group_records import MalformedGroupRecord, decode
from ackproof.broker.wire.records import records

logger = logging.getLogger(__name__)

CHUNK_BYTES = 2**16
"""Read at a time; in between, others have their turn."""


async def load(log: PartitionLog) -> Loading:
    """Everything from the log's start to its end, however often that moves meanwhile.

    Kafka takes what it loads at its word (``DefaultRecordBatch.iterator`` compares no CRC). Here
    it is compared: it costs little, and once in each leadership. The disk has turned a bit over in
    the last commit of a group: its consumer would go on from another offset, or from that of the
    commit before, and nobody would know.

    Raises:
        OffsetOutOfRange: the log was cut meanwhile: this broker does not lead any more.
        CorruptBatch: a batch is damaged, or what lies behind it cannot be found.
        OSError: nor can the disk be read.
    """
    loading = Loading()
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        data = log.read(offset, CHUNK_BYTES, log.log_end_offset)
        batches = parse_batches(data, from_offset=offset)
        if not batches:
            raise CorruptBatch(f"nothing is to be found at offset {offset}")
        _add(loading, batches, offset, log.directory.name)
        offset = batches[-1].next_offset
        await asyncio.sleep(0)
    return loading


def _add(loading: Loading, batches: Iterable[RecordBatch], start: int, name: str) -> None:
    """What is no record of ours is left out: clients may write to the topic, too. It may be one
    that cannot be decompressed: the batch is as it was written."""
    for batch in batches:
        try:
            for record in records(batch):
                if record.offset >= start and not batch.is_control:
                    loading.add(*decode(record.key, record.value), record.offset)
        except (CorruptBatch, MalformedGroupRecord) as error:
            logger.error("%s, batch at offset %d: %s", name, batch.base_offset, error)
