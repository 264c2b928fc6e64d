"""The starts of the logs of topics that set a retention: how they are observed while the workload
runs, and how they are held for the final read.

Retention deletes records while clients work. Only repeated questions show when it did so, and
whether that was too early (:mod:`checkers.context.retention`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from ackproof.checkers.context.retention import retention_of
from ackproof.harness.running.deadline import Deadline
from ackproof.history.cell import Cell
from ackproof.infra.api.capabilities import Admin, AdminTimeout, OrderRefused

QUESTION_S = 2.0
"""The time for an answer, in seconds. A leader that does not answer delays no other partition."""
_SETTLED_NS = 1_000_000_000
_ORDER_S = 20.0
_SETTLED_S = 15.0

Partition = tuple[str, int]


class _Question(NamedTuple):
    """An open question. The client is kept until it is answered, because questions end with it."""

    client: AdminClient
    asked: int
    answer: Future[ListOffsetsResultInfo]


class LogStarts:
    """The observation of the log starts of some cells, one look at a time.

    Args:
        cells: The cells of the run. Only those that set a retention are observed.
        connect: Makes a client. After a refusal another client asks, because librdkafka asks the
            leader in its metadata until that refuses.
        record: Receives each answer: topic, partition, the times of question and answer in
            nanoseconds of the Unix epoch, and the offset.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        connect: Callable[[], AdminClient],
        record: Callable[[str, int, int, int, int], None],
    ) -> None:
        self.topics = [cell.topic for cell in cells if retention_of(cell) is not None]
        self._partitions = [
            partition
            for cell in cells
            if cell.topic in self.topics
            for partition in cell.topic_partitions
        ]
        self._connect = connect
        self._record = record
        self._client: AdminClient | None = None
        self._former: list[AdminClient] = []
        """Refused, and kept so that no thread of librdkafka frees them, which would end this
        process (confluent-kafka 2.16)."""
        self._open: dict[Partition, _Question] = {}
        self._answered: dict[Partition, int] = {}
        self._last: dict[Partition, int] = dict.fromkeys(self._partitions, 0)

    def look(self) -> None:
        """Record the answers that have come, and ask again for these partitions. This never
        waits."""
        for partition, question in tuple(self._open.items()):
            if question.answer.done():
                del self._open[partition]
                self._take(partition, question)
        for partition in self._partitions:
            if partition not in self._open:
                self._ask(partition)

    def asked_since(self, time_ns: int) -> bool:
        """Return whether each partition has answered a question that was asked after a time."""
        return all(asked > time_ns for asked in self._last.values())

    def _ask(self, partition: Partition) -> None:
        client = self._client = self._client or self._connect()
        self._answered.pop(partition, None)
        asked = time.time_ns()
        (answer,) = client.list_offsets(
            {TopicPartition(*partition): OffsetSpec.earliest()}, request_timeout=QUESTION_S
        ).values()
        self._open[partition] = _Question(client, asked, answer)
        answer.add_done_callback(partial(self._note, partition))

    def _give_up(self, client: AdminClient) -> None:
        if self._client is client:
            self._client = None
            self._former.append(client)

    def _note(self, partition: Partition, _: object) -> None:
        self._answered[partition] = time.time_ns()

    def _take(self, partition: Partition, question: _Question) -> None:
        try:
            offset = int(question.answer.result().offset)
        except KafkaException:
            offset = -1
        if offset < 0:  # also librdkafka's result (2.16) without an answer of the leader
            self._give_up(question.client)
            return
        answered = self._answered.get(partition) or time.time_ns()
        self._record(*partition, question.asked, answered, offset)
        self._last[partition] = question.asked


def hold(starts: LogStarts, admin: Admin, deadline: Deadline) -> Mapping[str, str]:
    """Stop retention on the observed topics, and wait until it has come to rest. Return the reason
    for each topic on which it could not be stopped.

    Otherwise the final read would race with it: what is deleted after the start of a log was asked
    for would seem to be lost.
    """
    refused = {}
    for topic in starts.topics:
        try:
            for name in ("retention.ms", "retention.bytes"):
                admin.set_topic_config(topic, name, "-1", min(deadline.remaining(), _ORDER_S))
        except (OrderRefused, AdminTimeout) as error:
            refused[topic] = str(error)
    ordered = time.time_ns() + _SETTLED_NS
    deadline.until(lambda: starts.asked_since(ordered), at_most=_SETTLED_S)
    return refused
