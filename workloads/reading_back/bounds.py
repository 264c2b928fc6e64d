"""Where the logs of many partitions begin and end, asked in parallel until each has answered.

A partition without a leader makes only its own question wait: each question has a time limit and
goes to the back of the queue when it failed. Nor do questions and reading wait for each other: an
administrator is asked, since confluent-kafka (2.16) lets one thread at a time into a consumer.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

PARTITIONS_MAX = 16
"""Asked at a time."""
QUESTION_SECONDS = 2.0
RETRY_SECONDS = 0.5

Partition = tuple[str, int]


class Bounds:
    """Asks for log start and high watermark of each partition."""

    def __init__(self, admin: AdminClient, partitions: Sequence[Partition]) -> None:
        self._admin = admin
        self._due = deque((0.0, partition) for partition in partitions)
        self._asked: dict[Partition, list[Future[ListOffsetsResultInfo]]] = {}
        self.refusals: dict[Partition, str] = {}
        """The last error of each partition that has not answered yet."""

    def answers(self, now: float) -> Iterator[tuple[Partition, int, int]]:
        """What was answered since the last call: partition, log start, high watermark. ``now``: a
        clock that only goes forward, seconds. Never waits."""
        for partition, questions in tuple(self._asked.items()):
            if not all(question.done() for question in questions):
                continue
            del self._asked[partition]
            try:
                low, high = (question.result().offset for question in questions)
            except KafkaException as error:
                self.refusals[partition] = error.args[0].name()
                self._due.append((now + RETRY_SECONDS, partition))
            else:
                self.refusals.pop(partition, None)
                yield partition, low, high
        self._ask_those_due(now)

    def _ask_those_due(self, now: float) -> None:
        while self._due and self._due[0][0] <= now and len(self._asked) < PARTITIONS_MAX:
            _, partition = self._due.popleft()
            self._asked[partition] = [
                question
                for where in (OffsetSpec.earliest(), OffsetSpec.latest())
                for question in self._admin.list_offsets(
                    {TopicPartition(*partition): where}, request_timeout=QUESTION_SECONDS
                ).values()
            ]
