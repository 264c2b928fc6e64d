"""The final read of what was written in transactions.

``python -m ackproof.workloads.transactions.final_read SPEC.json``

It reads everything (``workloads.reading_back.final_read``), then again what is committed, into
``committed`` and ``committed_reads``. Then it fetches what the transformers' groups have committed.
A transaction that is still open shows in the second read, which ends at the last stable offset,
below the high watermark.
"""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ackproof.history.transactional import FETCHED, NOTHING_COMMITTED
from ackproof.history.writer import PartitionedWriter, TableWriter
from ackproof.workloads.process import ProgressFile, main, note_error
from ackproof.workloads.reading_back import final_read, processes
from ackproof.workloads.reading_back.final_read import (
    FinalReader,
    connection_of,
    consumer_properties,
)
from ackproof.workloads.spec import FINAL_READ, SpecificationError, TopicSpec, load
from ackproof.workloads.transactions.spec import READ_TABLES, TransactionalReadSpec

ASK_S = 2.0


class CommittedReader(FinalReader):
    """A reader of what is committed into a ``committed`` writer."""

    def _append(self, message: Message) -> None:
        topic, partition = message.topic(), message.partition()
        self._log.partition(topic, partition).append((topic, partition, message.offset()))


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Read as the specification file says."""
    processes.run(load(TransactionalReadSpec, specification), READ_TABLES, _read, stopping)


def _read(spec: TransactionalReadSpec, deadline: float, stopping: Callable[[], bool]) -> None:
    committed = PartitionedWriter(spec.history, "committed", FINAL_READ, spec.asked)
    reads = TableWriter(spec.history, "committed_reads", FINAL_READ)
    offsets = TableWriter(spec.history, "transaction_offsets", FINAL_READ)
    with closing(committed), closing(reads), closing(offsets):
        final_read.read(spec, deadline, stopping)
        _read_committed(spec, committed, reads, deadline, stopping)
        for topic in spec.topics:
            if topic.topic in spec.groups:
                _fetch(spec, topic, offsets, deadline)


def _read_committed(
    spec: TransactionalReadSpec,
    committed: PartitionedWriter,
    reads: TableWriter,
    deadline: float,
    stopping: Callable[[], bool],
) -> None:
    progress = ProgressFile(spec.progress)
    with closing(_consumer(spec, FINAL_READ)) as consumer:
        reader = CommittedReader(spec, consumer, committed)
        reader.run(reads, progress, deadline, stopping)


def _fetch(
    spec: TransactionalReadSpec,
    topic: TopicSpec,
    offsets: TableWriter,
    deadline: float,
) -> None:
    """Fetch what a group has committed, for the partitions that are answered in time."""
    group = spec.groups[topic.topic]
    asked = [TopicPartition(topic.topic, number) for number in topic.numbers]
    with closing(_consumer(spec, group)) as consumer:
        while asked:
            try:
                committed = consumer.committed(asked, timeout=ASK_S)
            except KafkaException as refusal:
                note_error(refusal.args[0])
                committed = []
            for one in (one for one in committed if one.error is None):
                offset = max(one.offset, NOTHING_COMMITTED)
                row = (time.time_ns(), FINAL_READ, group, None, None, FETCHED, topic.topic)
                offsets.append((*row, one.partition, offset, None))
            known = {one.partition for one in committed if one.error is None}
            asked = [one for one in asked if one.partition not in known]
            if time.monotonic() >= deadline:
                return


def _consumer(spec: TransactionalReadSpec, group: str) -> Consumer:
    """Return a consumer that gets no offset that a transaction is about to change.

    It is read_committed for that (``require_stable`` of OffsetFetch, KIP-447).
    """
    properties = {
        **consumer_properties(spec),
        **connection_of(spec),
        "group.id": group,
        "isolation.level": "read_committed",
    }
    try:
        return Consumer({**properties, "error_cb": note_error})
    except KafkaException as error:
        raise SpecificationError(f"librdkafka refuses: {error.args[0].str()}") from None


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
