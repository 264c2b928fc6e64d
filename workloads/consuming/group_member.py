"""A member of a cell's consumer group.

``python -m ackproof.workloads.consuming.group_member SPEC.json``

What a poll returned is recorded as shown, which is all the processing there is. The member commits
the next offset of each partition:

- ``at-least-once``: after the poll is recorded, while the next ones go on, and once more before
  partitions are given up. What is shown while a commit is under way waits for the answer.
- ``at-most-once``: after each poll, and there is no next poll before the answer. Records count as
  processed from the commit on that is ``ok`` and names an offset behind them. After a commit with
  an unknown outcome they do not, and it is asked for again together with what comes next.
- ``auto-commit``: librdkafka itself commits whatever polls returned, every
  ``auto.commit.interval.ms`` and before partitions are given up.

When partitions are assigned, the member asks the group's coordinator for the group's position. So
the start of reading is known and recorded. If it does not answer within :data:`FETCH_S`, librdkafka
goes on asking. Where nothing is committed, reading begins at the log's start.

The member asks again every :data:`LOOK_S`. Otherwise what a coordinator has forgotten would mostly
be committed again, before a member is assigned the partition and finds it gone.

SIGTERM stops the member. It reads what it has to the high watermarks of that moment, commits, and
leaves the group. Static members do not leave (KIP-345), and their partitions wait for them.

Sometimes librdkafka knows no broker any more (:mod:`workloads.known_brokers`), or does not come
back from a commit. The member then abandons it and starts over, like a process that was restarted:
with another member id, and without what it had.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    KafkaException,
    TopicPartition,
)

from ackproof.history.sessions import NO_ANSWER, NO_BROKERS
from ackproof.workloads.configuration import commit_s, is_cooperative, member_properties
from ackproof.workloads.consuming.commits import CommitTimeout, RecordingCommitter
from ackproof.workloads.consuming.consumption import ConsumptionRecorder
from ackproof.workloads.consuming.polling import (
    CatchUp,
    Keep,
    Poller,
    Positions,
    consume,
    consumer_of,
    leave,
    recording,
    watermarks,
)
from ackproof.workloads.interface import Delivery
from ackproof.workloads.known_brokers import KnownBrokers
from ackproof.workloads.process import main, within
from ackproof.workloads.spec import GroupMemberSpec, load

FETCH_S = 10.0
ASK_S = 1.0
"""The time limit of one question, in seconds; between two the history is flushed."""
ASK_AGAIN_S = 0.1
LOOK_S = 2.0
"""The seconds between two looks at what is committed of the partitions that a member has."""
GRACE_S = 5.0
"""How long a commit may take beyond the time after which librdkafka gives it up, in seconds."""
CLOSE_S = 10.0
"""How long leaving may take, in seconds: while there is no coordinator, librdkafka asks for one
without end."""

_log = logging.getLogger(__name__)


class GroupMember:
    """One life of a member: it reads and commits until it is told to stop, or has to start over.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    def __init__(self, spec: GroupMemberSpec, recorder: ConsumptionRecorder, keep: Keep) -> None:
        properties = member_properties(spec)
        self._spec = spec
        self._recorder = recorder
        self._keep = keep
        self._cooperative = is_cooperative(properties)
        self._settled = False
        self._look_due = time.monotonic()
        self._positions = Positions()
        self._leaving = self._over = False
        self._brokers = KnownBrokers()
        answer_s = commit_s(properties) + GRACE_S
        self._committer = RecordingCommitter(spec.topic, recorder, self._positions, answer_s)
        heard = {"stats_cb": self._brokers.on_statistics, "on_commit": self._committer.answered}
        self._consumer = consumer_of({**properties, **self._brokers.properties}, heard)
        self._poller = Poller(partial(consume, self._consumer), recorder, self._positions)

    def run(self, stopping: Callable[[], bool]) -> str | None:
        """Read until ``stopping``, then to the end, and leave.

        Return why it has to start over, or None when it is finished. Raise ClientFailed after a
        fatal error.
        """
        self._consumer.subscribe(
            [self._spec.topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )
        why = None
        with closing(self._committer):
            try:
                why = self._read(stopping)
            finally:
                self._leave(CLOSE_S if why is None else 0.0)
        return why

    def _read(self, stopping: Callable[[], bool]) -> str | None:
        try:
            while not stopping():
                self._turn()
                if self._brokers.none_left:
                    return NO_BROKERS
            catch_up = CatchUp(
                partial(watermarks, self._consumer, self._spec.topic), self._positions
            )
            while not catch_up.done(self._settled and not self._owes_a_commit()):
                self._turn()
        except CommitTimeout:
            return NO_ANSWER
        return None

    def _leave(self, seconds: float) -> None:
        """Close the consumer, or abandon it at once where there is no time.

        Closing may not come back. The consumer is then abandoned, and ignored from then on.
        """
        self._leaving, self._over = True, not seconds
        try:
            within(seconds, partial(leave, self._consumer, is_static=bool(self._spec.instance)))
        except TimeoutError:
            self._over = True
            _log.warning("the consumer had %s s to leave its group, and is left behind", seconds)

    def _turn(self) -> None:
        self._poller.poll()
        self._look()
        if self._spec.delivery is Delivery.AT_LEAST_ONCE:
            self._committer.ask(self._consumer)
        elif self._spec.delivery is Delivery.AT_MOST_ONCE:
            self._committer.commit(self._consumer)
        self._keep()

    def _look(self) -> None:
        """Ask once what is committed, if it is time to; the next look is soon.

        This comes before a commit of what was shown, which would hide what was forgotten while this
        process hung.
        """
        now = time.monotonic()
        if not self._settled or now < self._look_due:
            return
        self._look_due = now + LOOK_S
        asked = self._recorder.now()
        self._recorder.looked(asked, self._ask(self._consumer, sorted(self._positions.partitions)))

    def _owes_a_commit(self) -> bool:
        return self._committer.is_behind and self._spec.delivery is not Delivery.AUTO_COMMIT

    def _assigned(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        """Take what was given.

        With the eager protocol ``given`` is all that the member has, with the cooperative one only
        what is new. Either may be empty.
        """
        if self._over:
            self._take(consumer, given)
            return
        partitions = [one.partition for one in given]
        fetched = self._fetch(consumer, partitions)
        self._recorder.fetched(fetched)
        for partition in partitions:
            self._positions.begin(partition, fetched.get(partition))
        self._recorder.assigned({p: fetched.get(p) for p in partitions})
        self._settled = True
        starts = [TopicPartition(self._spec.topic, p, _start(p, fetched)) for p in partitions]
        self._take(consumer, starts)

    def _take(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        """Assign, but read nothing when leaving: it would be committed without being recorded."""
        if self._cooperative:
            consumer.incremental_assign(given)
        else:
            consumer.assign(given)
        if self._leaving:
            consumer.pause(given)

    def _revoked(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        """Give partitions up.

        The client library takes them away when this has returned and a commit that was asked for is
        answered. No code can wait for that in a callback.
        """
        if self._spec.delivery is Delivery.AT_LEAST_ONCE and not self._over:
            self._committer.ask(consumer)
        self._take_away(taken, self._recorder.revoked)

    def _lost(self, _consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        self._take_away(taken, self._recorder.lost)

    def _take_away(
        self, taken: Sequence[TopicPartition], record: Callable[[Sequence[int]], None]
    ) -> None:
        if self._over:
            return
        partitions = [one.partition for one in taken]
        self._positions.forget(partitions)
        self._settled = False
        record(partitions)

    def _fetch(self, consumer: Consumer, partitions: Sequence[int]) -> Mapping[int, int | None]:
        """Return what is committed, for each partition where that is known; None stands for
        nothing."""
        deadline = time.monotonic() + FETCH_S
        while partitions and time.monotonic() < deadline:
            if records := self._ask(consumer, partitions):
                return records
            self._keep()  # the question is repeated, and in the end librdkafka asks
            time.sleep(ASK_AGAIN_S)
        return {}

    def _ask(self, consumer: Consumer, partitions: Sequence[int]) -> Mapping[int, int | None]:
        """Return the same after one question, or nothing at all unless every answer is known."""
        asked = [TopicPartition(self._spec.topic, partition) for partition in partitions]
        with suppress(KafkaException):
            answers = consumer.committed(asked, timeout=ASK_S) if asked else ()
            if all(one.error is None for one in answers):
                return {a.partition: a.offset if a.offset >= 0 else None for a in answers}
        return {}


def _start(partition: int, fetched: Mapping[int, int | None]) -> int:
    """Return where to begin.

    With OFFSET_STORED librdkafka asks the coordinator itself, and ``auto.offset.reset`` resolves
    OFFSET_INVALID.
    """
    offset = fetched.get(partition, OFFSET_STORED)
    return int(OFFSET_INVALID if offset is None else offset)


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Read in the group as the specification file says, until ``stopping``."""
    spec = load(GroupMemberSpec, specification)
    with recording(spec) as (recorder, keep):
        while (why := GroupMember(spec, recorder, keep).run(stopping)) is not None:
            _log.warning("it starts over: %s", why)
            recorder.start_over(why)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
