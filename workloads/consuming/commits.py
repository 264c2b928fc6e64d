"""The commits of a group's member: one at a time, and what became of each.

All in the thread that polls, or in one that it waits for. confluent-kafka (2.16) lets one thread at
a time into a consumer, and one that is in a callback is in it: a commit that another thread asks
for waits until the poll is over, and one that a callback waits for waits for ever.

One at a time: of two under way either may be stored last, since librdkafka asks again where nobody
answered the first, and what is committed would go back.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ackproof.workloads.consuming.consumption import ConsumptionRecorder
from ackproof.workloads.consuming.polling import Positions
from ackproof.workloads.outcomes import of_commit
from ackproof.workloads.process import within


class NoAnswer(Exception):
    """librdkafka did not come back from a commit, and lets nobody else into its consumer."""


class _Commit(NamedTuple):
    number: int
    offsets: Sequence[TopicPartition]


class Committer:
    """Commits and records it. To be closed behind the consumer, which answers until then; what
    it says later is not heard.

    Args:
        answer_s: How long a commit that is waited for may take, seconds.
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
        """Ask for a commit of what is not committed, unless one is under way. The answer comes with
        a later poll (:meth:`answered`)."""
        self._begin(consumer, asynchronous=True)

    def commit(self, consumer: Consumer) -> None:
        """The same, and wait for the answer; not in a callback.

        While nobody coordinates the group librdkafka gives up after about ``session.timeout.ms``
        and six times ``socket.timeout.ms``. Where it knows no broker any more it does not
        (:mod:`workloads.known_brokers`): a request that it could not send is tried again without
        being counted. Raises NoAnswer then; what became of the commit is unknown.
        """
        self._begin(consumer, asynchronous=False)

    def answered(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """For ``on_commit``: what became of the commit under way; of one that the client library
        made by itself, where none is. Partitions without an offset were no part of that."""
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
        """The consumer is closed: a commit that is not answered never will be."""
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
            raise NoAnswer from None
