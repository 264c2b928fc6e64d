"""Reads a partition of ``__consumer_offsets`` from its log, for the broker that now leads it."""

import asyncio
import logging
from collections.abc import Iterable

from broker.groups.loading import Loading
from broker.log.partition_log import PartitionLog
from broker.wire.batch import CorruptBatch, RecordBatch, parse_batches
from broker.wire.group_records import MalformedGroupRecord, decode
from broker.wire.records import records

logger = logging.getLogger(__name__)

CHUNK_BYTES = 2**16
"""Read at a time; in between, others have their turn."""


async def load(log: PartitionLog) -> Loading:
    """Everything from the log's start to its end, however often that moves meanwhile.

    Raises:
        OffsetOutOfRange: the log was cut meanwhile: this broker does not lead any more.
        CorruptBatch: the log cannot be read to its end; what lies behind is not known.
        OSError: nor can the disk be read.
    """
    loading = Loading()
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        data = log.read(offset, CHUNK_BYTES, log.log_end_offset)
        batches = parse_batches(data, verify_crc=False)
        if not batches:
            raise CorruptBatch(f"nothing is to be found at offset {offset}")
        _add(loading, batches, offset, log.directory.name)
        offset = batches[-1].next_offset
        await asyncio.sleep(0)
    return loading


def _add(loading: Loading, batches: Iterable[RecordBatch], start: int, name: str) -> None:
    """What is no record of ours is left out: clients may write to the topic, too."""
    for batch in batches:
        try:
            for record in records(batch):
                if record.offset >= start and not batch.is_control:
                    loading.add(*decode(record.key, record.value), record.offset)
        except (CorruptBatch, MalformedGroupRecord) as error:
            logger.error("%s, batch at offset %d: %s", name, batch.base_offset, error)
