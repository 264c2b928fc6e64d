"""Where the logs of many partitions begin and end, asked in parallel until each has answered.

A partition without a leader makes only its own question wait: each question has a time limit and
goes to the back of the queue when it failed.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, TopicPartition

THREADS_MAX = 16
QUESTION_SECONDS = 2.0
RETRY_SECONDS = 0.5

Partition = tuple[str, int]


class Bounds:
    """Asks for log start and high watermark of each partition. A context manager; leaving it
    waits for the questions under way, at most :data:`QUESTION_SECONDS`."""

    def __init__(self, consumer: Consumer, partitions: Sequence[Partition]) -> None:
        self._consumer = consumer
        self._pool = ThreadPoolExecutor(min(THREADS_MAX, max(1, len(partitions))))
        self._asked: dict[Future[tuple[int, int]], Partition] = {}
        self._retry: list[tuple[float, Partition]] = []
        self.refusals: dict[Partition, str] = {}
        """The last error of each partition that has not answered yet."""
        for partition in partitions:
            self._ask(partition)

    def answers(self, now: float) -> Iterator[tuple[Partition, int, int]]:
        """What was answered since the last call: partition, log start, high watermark. ``now``: a
        clock that only goes forward, seconds. Never waits."""
        self._ask_again(now)
        for future in [future for future in self._asked if future.done()]:
            partition = self._asked.pop(future)
            try:
                low, high = future.result()
            except KafkaException as error:
                self.refusals[partition] = error.args[0].name()
                self._retry.append((now + RETRY_SECONDS, partition))
            else:
                self.refusals.pop(partition, None)
                yield partition, low, high

    def __enter__(self) -> "Bounds":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _ask(self, partition: Partition) -> None:
        self._asked[self._pool.submit(self._question, partition)] = partition

    def _ask_again(self, now: float) -> None:
        due = [partition for when, partition in self._retry if when <= now]
        self._retry = [(when, partition) for when, partition in self._retry if when > now]
        for partition in due:
            self._ask(partition)

    def _question(self, partition: Partition) -> tuple[int, int]:
        answer: tuple[int, int] = self._consumer.get_watermark_offsets(
            TopicPartition(*partition), timeout=QUESTION_SECONDS, cached=False
        )
        return answer
