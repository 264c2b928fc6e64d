"""The commits of a group's member: one at a time, with the outcome of each.

All happen in the thread that polls, or in one that it waits for. confluent-kafka (2.16) lets one
thread at a time into a consumer, and a thread in a callback is in it. A commit that another thread
asks for waits until the poll is over. A commit that a callback waits for waits for ever.

Only one is under way at a time. Of two under way either may be stored last, because librdkafka asks
again where the first got no answer. What is committed would then go back.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ackproof.workloads.consuming.consumption import ConsumptionRecorder
from ackproof.workloads.consuming.polling import Positions
from ackproof.workloads.outcomes import of_commit
from ackproof.workloads.process import within


class CommitTimeout(Exception):
    """The error of a commit from which librdkafka did not come back, so that no other thread can
    use its consumer."""


class _Commit(NamedTuple):
    number: int
    offsets: Sequence[TopicPartition]


class RecordingCommitter:
    """A recorder of the commits that it makes.

    It must be closed after the consumer, which answers until then. What the consumer says later is
    ignored.

    Args:
        answer_s: How long a commit that is waited for may take, in seconds.
    """

    def __init__(
        self, topic: str, recorder: ConsumptionRecorder, positions: Positions, answer_s: float
    ) -> None:
        self._topic = topic
        self._recorder = recorder
        self._positions = positions
        self._answer_s = answer_s
        self._under_way: _Commit | None = None
        self._closed = False

    @property
    def is_behind(self) -> bool:
        """Whether something that was shown is not known to be committed."""
        return bool(self._positions.uncommitted())

    def ask(self, consumer: Consumer) -> None:
        """Ask for a commit of what is not committed, unless one is under way.

        The answer comes with a later poll (:meth:`answered`).
        """
        self._begin(consumer, asynchronous=True)

    def commit(self, consumer: Consumer) -> None:
        """Commit as :meth:`ask` does, and wait for the answer; it must not be called in a callback.

        While the group has no coordinator, librdkafka gives up after about ``session.timeout.ms``
        and six times ``socket.timeout.ms``. Where it knows no broker any more it does not give up
        (:mod:`workloads.known_brokers`). It tries a request that it could not send again without
        counting it.

        Raise NoAnswer then; the outcome of the commit is unknown.
        """
        self._begin(consumer, asynchronous=False)

    def answered(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """Record the outcome of the commit under way, for ``on_commit``.

        Where none is under way, the client library made the commit by itself. Partitions without an
        offset were no part of it.
        """
        made = [one for one in offsets if one.offset >= 0]
        if self._closed or not made:
            return
        number = self._recorder.commit({}) if self._under_way is None else self._under_way.number
        self._under_way = None
        for one in made:
            failed = one.error or error
            name = None if failed is None else failed.name()
            self._recorder.answered(number, of_commit(failed), one.partition, one.offset, name)
            if failed is None:
                self._positions.committed(one.partition, one.offset)

    def close(self) -> None:
        """End the commits after the consumer is closed: a commit without an answer will never get
        one."""
        if self._under_way is not None:
            self.answered(KafkaError(KafkaError._DESTROY), self._under_way.offsets)
        self._closed = True

    def _begin(self, consumer: Consumer, *, asynchronous: bool) -> None:
        due = self._positions.uncommitted()
        if self._under_way is not None or not due:
            return
        offsets = [TopicPartition(self._topic, *one) for one in sorted(due.items())]
        self._under_way = _Commit(self._recorder.commit(due), offsets)
        call = partial(consumer.commit, offsets=offsets, asynchronous=asynchronous)
        try:
            if asynchronous:
                call()
            else:
                self.answered(None, within(self._answer_s, call))
        except KafkaException as refusal:
            self.answered(refusal.args[0], offsets)
        except TimeoutError:
            self.answered(KafkaError(KafkaError._TIMED_OUT), offsets)
            raise CommitTimeout from None
