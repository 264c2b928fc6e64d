"""The commits of a group's member: one at a time, and what became of each.

All in the thread that polls. confluent-kafka (2.16) lets one thread at a time into a consumer, and
one that is in a callback is in it: a commit that another thread asks for waits until the poll is
over, and one that a callback waits for waits for ever.

One at a time: of two under way either may be stored last, since librdkafka asks again where nobody
answered the first, and what is committed would go back.
"""

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from workloads.commit_outcomes import of_commit
from workloads.consumption import ConsumptionRecorder
from workloads.positions import Positions


class _Commit(NamedTuple):
    number: int
    offsets: Sequence[TopicPartition]


class Committer:
    """Commits and records it. To be closed behind the consumer, which answers until then."""

    def __init__(self, topic: str, recorder: ConsumptionRecorder, positions: Positions) -> None:
        self._topic = topic
        self._recorder = recorder
        self._positions = positions
        self._under_way: _Commit | None = None

    @property
    def is_behind(self) -> bool:
        """Whether something that was shown is not known to be committed."""
        return bool(self._positions.uncommitted())

    def ask(self, consumer: Consumer) -> None:
        """Ask for a commit of what is not committed, unless one is under way. The answer comes with
        a later poll (:meth:`answered`)."""
        self._begin(consumer, asynchronous=True)

    def commit(self, consumer: Consumer) -> None:
        """The same, and wait for the answer. While nobody coordinates the group librdkafka gives up
        after about ``session.timeout.ms`` and six times ``socket.timeout.ms``."""
        self._begin(consumer, asynchronous=False)

    def answered(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """For ``on_commit``: what became of the commit under way; of one that the client library
        made by itself, where none is. Partitions without an offset were no part of that."""
        made = [one for one in offsets if one.offset >= 0]
        if not made:
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
        """The consumer is closed: a commit that is not answered never will be."""
        if self._under_way is not None:
            self.answered(KafkaError(KafkaError._DESTROY), self._under_way.offsets)

    def _begin(self, consumer: Consumer, *, asynchronous: bool) -> None:
        due = self._positions.uncommitted()
        if self._under_way is not None or not due:
            return
        offsets = [TopicPartition(self._topic, *one) for one in sorted(due.items())]
        self._under_way = _Commit(self._recorder.commit(due), offsets)
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=asynchronous)
        except KafkaException as refusal:
            self.answered(refusal.args[0], offsets)
        else:
            if not asynchronous:
                self.answered(None, answers)
