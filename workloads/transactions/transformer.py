"""A transformer of one cell: ``python -m ackproof.workloads.transactions.transformer SPEC.json``.

It consumes, transforms and produces (KIP-98). What a poll of its group's member returned is read in
one transaction. That transaction sends a record for each record of a producer, to a drawn
partition. It also sends the offsets of all that was read (``send_offsets_to_transaction``, with the
group's metadata: KIP-447).

What a transformer sent is read and passed over. Where there is nothing else, it waits for the next
poll. A share of the transactions is aborted.

After anything but a commit that was answered, reading goes on where the group has committed, and
nothing that was read counts. Another session's ``init_transactions`` decides a transaction of
unknown outcome first, so that what is committed is not about to change.

Offsets go out with the metadata that the member had when it was assigned its partitions. A member
that was removed from its group has none any more. A coordinator accepts a commit without metadata
from any client (KIP-447), which would set back the present member. And a poll during which
partitions were taken away may return records of these: nothing of it counts.

SIGTERM stops it: it finishes its transaction and leaves the group.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ackproof.history.payload import decode
from ackproof.history.transactional import FETCHED, NOTHING_COMMITTED, TRANSFORMERS
from ackproof.workloads.configuration import consumer_properties
from ackproof.workloads.consuming.polling import consumer_of
from ackproof.workloads.process import main, note_error
from ackproof.workloads.producing.recorder import Keep
from ackproof.workloads.spec import Config, load
from ackproof.workloads.transactions.recorder import ShownRecord, TransactionRecorder, recording
from ackproof.workloads.transactions.session import (
    ClientDraws,
    ProducerSession,
    SessionSequence,
    TransactionEnd,
)
from ackproof.workloads.transactions.spec import TransformerSpec

WAIT_S = 0.1
"""How long a poll waits, in seconds."""
BATCHES = 10
"""The most records of one transaction, as a multiple of a producer's average, so that slow
transformers catch up."""
ASK_S = 1.0


class Transformer:
    """A transformer that reads, transforms and sends until it is told to stop.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    def __init__(
        self,
        spec: TransformerSpec,
        recorder: TransactionRecorder,
        keep: Keep,
        lives: SessionSequence,
    ) -> None:
        self._spec = spec
        self._recorder = recorder
        self._keep = keep
        self._lives = lives
        self._draws = ClientDraws(spec)
        self._session: ProducerSession | None = None
        self._reads: list[ShownRecord] = []
        self._astray = False
        self._moved = False
        self._group: Any = None
        self._consumer = consumer_of(member_properties(spec), {})

    def run(self, stopping: Callable[[], bool]) -> None:
        """Transform until ``stopping``."""
        self._session = self._lives.next()
        self._consumer.subscribe(
            [self._spec.topic],
            on_assign=self._assigned,
            on_revoke=self._taken,
            on_lost=self._taken,
        )
        with closing(self._consumer):
            while self._session is not None and not stopping():
                self._turn(self._session)
        if self._session is not None:
            self._session.close()

    def _turn(self, session: ProducerSession) -> None:
        self._keep(time.monotonic())
        if self._astray:
            self._astray = not self._rewound()
            session.serve(0)
            return
        self._reads += self._polled()
        session.serve(0)
        if self._group is not None and any(map(_to_transform, self._reads)):
            committed = self._transform(session)
            self._reads.clear()
            self._astray = not committed
        if session.over:
            self._astray = True
            session.close()
            self._session = self._lives.next()

    def _transform(self, session: ProducerSession) -> bool:
        """Run one transaction, and return whether it was committed."""
        if not session.begin():
            return False
        made = [
            (read, session.send(self._draws.partition()) if _to_transform(read) else None)
            for read in self._reads
        ]
        self._recorder.read(session.number, session.transaction, made)
        positions = {read.partition: read.offset + 1 for read in self._reads}
        sent = session.send_offsets(positions, self._group)
        if not sent or self._draws.end() is not TransactionEnd.COMMIT:
            session.abort()
            return False
        return session.commit()

    def _polled(self) -> Sequence[ShownRecord]:
        self._moved = False
        try:
            messages = self._consumer.consume(BATCHES * self._spec.transaction_records, WAIT_S)
        except KafkaException as refusal:
            note_error(refusal.args[0])
            return []
        now = time.time_ns()
        if self._moved:
            self._reads.clear()
            self._astray = True
            return []
        for message in messages:
            if message.error() is not None:
                note_error(message.error())
        return [_read(message, now) for message in messages if message.error() is None]

    def _rewound(self) -> bool:
        """Return whether all its partitions are read again from the group's position."""
        try:
            mine = self._consumer.assignment()
            committed = self._consumer.committed(mine, timeout=ASK_S) if mine else []
            if any(one.error is not None for one in committed):
                return False
            positions = {one.partition: max(one.offset, NOTHING_COMMITTED) for one in committed}
            for partition, offset in positions.items():
                start = TopicPartition(self._spec.topic, partition, max(offset, 0))
                self._consumer.seek(start)
        except KafkaException as refusal:
            note_error(refusal.args[0])
            return False
        self._tell_fetched(positions)
        return True

    def _tell_fetched(self, positions: Mapping[int, int]) -> None:
        if self._session is not None:
            session = self._session
            self._recorder.offsets(session.number, session.transaction, FETCHED, positions)

    def _assigned(self, consumer: Consumer, _given: Sequence[TopicPartition]) -> None:
        self._moved = True
        self._group = consumer.consumer_group_metadata() if consumer.memberid() else None

    def _taken(self, _consumer: Consumer, _taken: Sequence[TopicPartition]) -> None:
        self._moved = True
        self._group = None


def member_properties(spec: TransformerSpec) -> Config:
    """Return the properties of its consumer; raise SpecificationError for what may not be set."""
    return {
        **consumer_properties(spec.reader),
        "group.id": spec.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": False,
        "auto.offset.reset": "earliest",
    }


def _to_transform(read: ShownRecord) -> bool:
    return read.identity is not None and read.identity.producer < TRANSFORMERS


def _read(message: Message, now: int) -> ShownRecord:
    return ShownRecord(now, message.partition(), message.offset(), decode(message.value()))


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Transform as the specification file says, until ``stopping``."""
    spec = load(TransformerSpec, specification)
    with recording(spec, time.time_ns) as (recorder, keep):
        lives = SessionSequence(spec, recorder, keep, stopping)
        Transformer(spec, recorder, keep, lives).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
