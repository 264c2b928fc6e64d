"""The commits of a group's member: one at a time, asked for in a thread of its own.

confluent-kafka's synchronous commit returns what became of each offset, and returns late: while
nobody coordinates the group it waits for up to ``session.timeout.ms``. The client's loop must not,
since it flushes the history. An asynchronous one is answered in a callback, and callbacks come with
the records of the next poll, which a member that commits before it processes may not ask for yet.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from workloads.commit_outcomes import of_commit
from workloads.consumption import ConsumptionRecorder
from workloads.positions import Positions

KEEP_EVERY_S = 0.1

Answers = Mapping[int, KafkaError | None]
"""What became of each partition's offset; None: it is committed."""


class Committer:
    """Commits and records it. A context manager; to be left before the consumer is closed, whose
    handle a commit under way would go on using. All is called in one thread."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        recorder: ConsumptionRecorder,
        positions: Positions,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._recorder = recorder
        self._positions = positions
        self._pool = ThreadPoolExecutor(1)
        self._under_way: tuple[int, Mapping[int, int], Future[Answers]] | None = None

    def ask(self) -> None:
        """Ask for a commit of what is not committed, unless one is under way; returns at once."""
        self.settle()
        offsets = self._positions.uncommitted()
        if self._under_way is not None or not offsets:
            return
        number = self._recorder.commit(offsets)
        self._under_way = (number, offsets, self._pool.submit(self._commit, offsets))

    def settle(self) -> None:
        """Record what became of the commit under way, if it is known."""
        if self._under_way is None or not self._under_way[2].done():
            return
        number, offsets, answer = self._under_way
        self._under_way = None
        for partition, error in answer.result().items():
            offset = offsets[partition]
            name = None if error is None else error.name()
            self._recorder.answered(number, of_commit(error), partition, offset, name)
            if error is None:
                self._positions.committed(partition, offset)

    def wait(self, keep: Callable[[], None]) -> None:
        """Wait until none is under way. ``keep`` is called several times a second."""
        while self._under_way is not None:
            wait([self._under_way[2]], KEEP_EVERY_S)
            self.settle()
            keep()

    def __enter__(self) -> "Committer":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown()
        self.settle()

    def _commit(self, offsets: Mapping[int, int]) -> Answers:
        asked = [TopicPartition(self._topic, *one) for one in sorted(offsets.items())]
        try:
            answered = self._consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException as refusal:
            return dict.fromkeys(offsets, refusal.args[0])
        return {one.partition: one.error for one in answered}
