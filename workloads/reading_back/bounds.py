"""Where the logs of many partitions begin and end, asked in parallel until each has answered.

A partition without a leader makes only its own question wait: each question has a time limit and
goes to the back of the queue when it failed. Nor do questions and reading wait for each other: an
administrator is asked, since confluent-kafka (2.16) lets one thread at a time into a consumer.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

PARTITIONS_MAX = 16
"""Asked at a time."""
QUESTION_SECONDS = 2.0
RETRY_SECONDS = 0.5

Partition = tuple[str, int]


class Bounds:
    """Asks for log start and high watermark of each partition.

    ``connect`` makes a client. Where one was refused, another one asks: librdkafka (2.16) goes by
    the leader that its metadata name until it is refused, which nobody is by the dead.
    """

    def __init__(self, connect: Callable[[], AdminClient], partitions: Sequence[Partition]) -> None:
        self._connect = connect
        self._admin: AdminClient | None = None
        self._due = deque((0.0, partition) for partition in partitions)
        self._asked: dict[Partition, _Asked] = {}
        self.refusals: dict[Partition, str] = {}
        """The last error of each partition that has not answered yet."""

    def answers(self, now: float) -> Iterator[tuple[Partition, int, int]]:
        """What was answered since the last call: partition, log start, high watermark. ``now``: a
        clock that only goes forward, seconds. Never waits."""
        for partition, asked in tuple(self._asked.items()):
            if not all(question.done() for question in asked.questions):
                continue
            del self._asked[partition]
            try:
                low, high = map(_told, asked.questions)
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
                    {TopicPartition(*partition): where}, request_timeout=QUESTION_SECONDS
                ).values()
            ]
            self._asked[partition] = _Asked(admin, questions)


class _Asked(NamedTuple):
    """Log start and high watermark of one partition. The client is there until they are told:
    with it its questions end."""

    admin: AdminClient
    questions: Sequence[Future[ListOffsetsResultInfo]]


def _told(question: Future[ListOffsetsResultInfo]) -> int:
    """Of a leader that does not answer in time librdkafka (2.16, ``rdkafka_admin.c``) has no error
    to tell, but the offset that it began with, which is none: an empty log would be read there.

    Raises KafkaException.
    """
    offset = int(question.result().offset)
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return offset
