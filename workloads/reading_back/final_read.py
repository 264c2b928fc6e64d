"""The final read: every partition from its start to its end, into ``log`` and ``reads``.

``python -m ackproof.workloads.reading_back.final_read SPEC.json``

One consumer reads all partitions at once, and librdkafka fetches from every broker in a thread of
its own. Partitions are assigned with the offset to start at, so that no group coordinator is
needed. confluent-kafka requires a ``group.id``, and nothing is ever committed to it.

A partition that could not be read to its end by the deadline is recorded as incomplete, with the
reason. That is a result, not a failure of the reader: the exit status is 0.

librdkafka may also end the process that reads all. That is no failure either: the reader is
restarted and reads each topic ``apart`` (:mod:`workloads.reading_back.processes`).
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from ackproof.history.payload import decode, identifying
from ackproof.history.writer import PartitionedWriter, TableWriter
from ackproof.workloads.configuration import connection_of_environment
from ackproof.workloads.process import ProgressFile, main, note_error
from ackproof.workloads.reading_back import processes
from ackproof.workloads.reading_back.processes import ReadBackPartition
from ackproof.workloads.spec import FINAL_READ, Config, FinalReadSpec, SpecificationError, load

# --- bounds of the logs ---------------------------------------------------------------------------
#
# A partition without a leader makes only its own question wait: each question has a time limit and
# goes to the back of the queue when it failed. Questions and reading do not wait for each other
# either. Confluent-kafka (2.16) lets one thread at a time into a consumer, so an administrator is
# asked.

PARTITIONS_MAX = 16
"""The number of partitions asked for at a time."""
QUESTION_SECONDS = 2.0
SECURED_QUESTION_SECONDS = 15.0
"""The limit on a secured cluster. Each new client first shakes hands and logs in, for which a busy
broker takes seconds. Clients that gave up earlier would keep it busy with their successors."""
RETRY_SECONDS = 0.5

Partition = tuple[str, int]


class Bounds:
    """The questions for log start and high watermark of each partition.

    ``connect`` makes a client. After a refusal another client asks. librdkafka (2.16) uses the
    leader in its metadata until that refuses, and a dead leader refuses nothing. A question has
    ``limit_s`` seconds.
    """

    def __init__(
        self,
        connect: Callable[[], AdminClient],
        partitions: Sequence[Partition],
        limit_s: float = QUESTION_SECONDS,
    ) -> None:
        self._connect = connect
        self._limit_s = limit_s
        self._admin: AdminClient | None = None
        self._due = deque((0.0, partition) for partition in partitions)
        self._asked: dict[Partition, _Asked] = {}
        self.refusals: dict[Partition, str] = {}
        """The last error of each partition that has not answered yet."""

    def answers(self, now: float) -> Iterator[tuple[Partition, int, int]]:
        """Yield what was answered since the last call: partition, log start, high watermark.

        ``now`` is in seconds of a clock that only goes forward. This never waits.
        """
        for partition, asked in tuple(self._asked.items()):
            if not all(question.done() for question in asked.questions):
                continue
            del self._asked[partition]
            try:
                low, high = map(_offset_of, asked.questions)
            except KafkaException as error:
                self.refusals[partition] = error.args[0].name()
                self._due.append((now + RETRY_SECONDS, partition))
                self._admin = None
            else:
                self.refusals.pop(partition, None)
                yield partition, low, high
        self._ask_those_due(now)

    def _ask_those_due(self, now: float) -> None:
        while self._due and self._due[0][0] <= now and len(self._asked) < PARTITIONS_MAX:
            _, partition = self._due.popleft()
            admin = self._admin = self._admin or self._connect()
            questions = [
                question
                for where in (OffsetSpec.earliest(), OffsetSpec.latest())
                for question in admin.list_offsets(
                    {TopicPartition(*partition): where}, request_timeout=self._limit_s
                ).values()
            ]
            self._asked[partition] = _Asked(admin, questions)


class _Asked(NamedTuple):
    """The questions for log start and high watermark of one partition.

    The client is kept until they are answered, because its questions end with it.
    """

    admin: AdminClient
    questions: Sequence[Future[ListOffsetsResultInfo]]


def _offset_of(question: Future[ListOffsetsResultInfo]) -> int:
    """Return the offset in an answer; raise KafkaException for none.

    For a leader that does not answer in time, librdkafka (2.16, ``rdkafka_admin.c``) has no error.
    It returns the offset that it began with, which is none, and would be read as an empty log.
    """
    offset = int(question.result().offset)
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return offset


# --- the final read -------------------------------------------------------------------------------

TABLES = ("log", "reads")

BATCH = 10_000
WAIT_SECONDS = 0.1

_PASSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
"""Errors that a consumer reports while metadata settles, and from which it recovers by itself."""


class FinalReader:
    """A reader of the partitions of a specification into a ``log`` writer."""

    def __init__(self, spec: FinalReadSpec, consumer: Consumer, log: PartitionedWriter) -> None:
        self._spec = spec
        self._consumer = consumer
        self._log = log
        self._reads = {
            (topic, number): ReadBackPartition(topic=topic, partition=number)
            for topic, number in spec.asked
        }
        self._open = set(self._reads)

    def run(
        self,
        reads: TableWriter,
        progress: ProgressFile,
        deadline: float,
        stopping: Callable[[], bool],
    ) -> None:
        """Read until all is read, the deadline (``time.monotonic``) has passed, or ``stopping``.

        Then write the rows of ``reads``.
        """
        connection = connection_of(self._spec)
        secured = "security.protocol" in connection
        limit_s = SECURED_QUESTION_SECONDS if secured else QUESTION_SECONDS
        bounds = Bounds(partial(AdminClient, connection), sorted(self._reads), limit_s)
        while self._open and not stopping() and (now := time.monotonic()) < deadline:
            for partition, low, high in bounds.answers(now):
                self._reads[partition].begin(low, high)
                self._consumer.incremental_assign([TopicPartition(*partition, low)])
            for message in self._consumer.consume(BATCH, WAIT_SECONDS):
                self._take(message)
            self._log.flush_due(now)
            if progress.due(now):
                progress.write(self.figures())
        unfinished = "stopped" if stopping() else f"{self._spec.deadline_s:g} s had passed"
        for key, read in sorted(self._reads.items()):
            refusal = bounds.refusals.get(key)
            reads.append(read.row(f"{unfinished} ({refusal})" if refusal else unfinished))

    def figures(self) -> Mapping[str, int]:
        """Return the figures for the progress file.

        They are ``records`` so far, ``records_total`` as far as bounds are known, and ``time`` in
        nanoseconds of the Unix epoch.
        """
        reads = self._reads.values()
        total = sum((r.log_end_offset or 0) - (r.log_start_offset or 0) for r in reads)
        return {
            "records": sum(read.records for read in reads),
            "records_total": total,
            "time": time.time_ns(),
        }

    def _take(self, message: Message) -> None:
        key = (message.topic(), message.partition())
        if key not in self._open:
            return
        read = self._reads[key]
        error = message.error()
        if error is None:
            read.record(message.offset())
            self._append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            read.end(message.offset())
        elif error.name() not in _PASSING:
            read.errors.append(f"{error.name()}: {error.str()}")
        if read.done:
            self._open.remove(key)
            self._consumer.incremental_unassign([TopicPartition(*key)])

    def _append(self, message: Message) -> None:
        topic, partition = message.topic(), message.partition()
        identity = decode(identifying(message.value(), message.headers())) or (None, None, None)
        self._log.partition(topic, partition).append(
            (
                topic,
                partition,
                message.offset(),
                message.leader_epoch(),
                message.timestamp()[1],
                *identity,
            )
        )


def connection_of(spec: FinalReadSpec) -> Config:
    """Return the properties with which the final read's clients connect."""
    return {
        **connection_of_environment(),
        **spec.client_config,
        "bootstrap.servers": spec.bootstrap_servers,
        "client.id": FINAL_READ,
        "socket.timeout.ms": 10_000,
        "reconnect.backoff.max.ms": 1_000,
    }


def consumer_properties(spec: FinalReadSpec) -> Config:
    """Return the properties of the final read's consumer."""
    return {
        **connection_of(spec),
        "group.id": FINAL_READ,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "error",
    }


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Read as the specification file says."""
    processes.run(load(FinalReadSpec, specification), TABLES, read, stopping)


def read(spec: FinalReadSpec, deadline: float, stopping: Callable[[], bool]) -> None:
    """Read until the deadline (``time.monotonic``), into files of its own."""
    log = PartitionedWriter(spec.history, "log", FINAL_READ, spec.asked)
    reads = TableWriter(spec.history, "reads", FINAL_READ)
    progress = ProgressFile(spec.progress)
    consumer = _consumer(spec)
    try:
        reader = FinalReader(spec, consumer, log)
        reader.run(reads, progress, deadline, stopping)
        progress.write(reader.figures())
    finally:
        consumer.close()
        log.close()
        reads.close()


def _consumer(spec: FinalReadSpec) -> Consumer:
    try:
        return Consumer({**consumer_properties(spec), "error_cb": note_error})
    except KafkaException as error:
        raise SpecificationError(f"librdkafka refuses: {error.args[0].str()}") from None


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
