"""A transformer of one cell: ``python -m ackproof.workloads.transactions.transformer SPEC.json``.

It consumes, transforms and produces (KIP-98). What a poll of its group's member returned is read in
one transaction. That transaction sends a record for each record of a producer, to a drawn
partition or with a drawn key. It also sends the offsets of all that was read
(``send_offsets_to_transaction``, with the group's metadata: KIP-447).

What a transformer sent is read and passed over. Where there is nothing else, it waits for the next
poll. A share of the transactions is aborted.

After anything but a commit that was answered, reading goes on where the group has committed, and
nothing that was read counts. Another session's ``init_transactions`` decides a transaction of
unknown outcome first, so that what is committed is not about to change.

A poll during which partitions were taken away may return records of these: nothing of it counts.

librdkafka's consumer outlives its sessions. A program is consumer and producer of one session, and
leaves the group when that is over.

SIGTERM stops it: it finishes its transaction and leaves the group.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ackproof.history.cell import LIBRDKAFKA
from ackproof.history.payload import Identity, decode, identifying
from ackproof.history.transactional import FETCHED, NOTHING_COMMITTED, TRANSFORMERS
from ackproof.workloads.configuration import consumer_properties
from ackproof.workloads.consuming.polling import consumer_of, leave
from ackproof.workloads.foreign.program import ProgramFailed
from ackproof.workloads.foreign.protocol import (
    Assigned,
    Close,
    Committed,
    Lost,
    Offset,
    Poll,
    Proceed,
    Record,
    Remedy,
    Revoked,
    Saying,
    Seek,
    Tombstone,
    encode_command,
)
from ackproof.workloads.process import main, note_error
from ackproof.workloads.producing.recorder import Keep
from ackproof.workloads.spec import Config, load
from ackproof.workloads.transactions.recorder import ShownRecord, TransactionRecorder, recording
from ackproof.workloads.transactions.session import (
    ASK_S,
    CallFailed,
    ClientDraws,
    ProducerSession,
    ProgramClient,
    Report,
    SessionSequence,
    TransactionalClient,
    TransactionEnd,
    client_of,
)
from ackproof.workloads.transactions.spec import BATCHES, TransactionalSpec, TransformerSpec

WAIT_S = 0.1
"""How long a poll waits, in seconds."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class GroupReader(Protocol):
    """The member of a transformer's group that reads its input."""

    @property
    def group(self) -> Any:
        """The metadata that goes with the offsets of transactions; None while it may send none."""

    def poll(self) -> Sequence[ShownRecord] | None:
        """Return what one poll has shown, or None where partitions were given or taken away."""

    def rewind(self) -> Mapping[int, int] | None:
        """Go on reading where the group has committed.

        Return these offsets by partition, -1 for none. The result is None if they are not known.
        """


# --- librdkafka -----------------------------------------------------------------------------------


class LibrdkafkaReader:
    """A consumer of librdkafka; see :class:`GroupReader`.

    Offsets go out with the metadata that it had when it was assigned its partitions. A member that
    was removed from its group has none any more. A coordinator accepts a commit without metadata
    from any client (KIP-447), which would set back the present member.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    def __init__(self, spec: TransformerSpec) -> None:
        self.group: Any = None
        self._topic = spec.topic
        self._most = BATCHES * spec.transaction_records
        self._moved = self._joined = False
        self._consumer = consumer_of(member_properties(spec), {})

    def close(self) -> None:
        """Leave the group."""
        leave(self._consumer, is_static=False)

    def poll(self) -> Sequence[ShownRecord] | None:
        if not self._joined:
            self._joined = True
            heard = {"on_revoke": self._taken, "on_lost": self._taken}
            self._consumer.subscribe([self._topic], on_assign=self._assigned, **heard)
        self._moved = False
        try:
            messages = self._consumer.consume(self._most, WAIT_S)
        except KafkaException as refusal:
            note_error(refusal.args[0])
            return []
        now = time.time_ns()
        if self._moved:
            return None
        for message in messages:
            if message.error() is not None:
                note_error(message.error())
        return [_read(message, now) for message in messages if message.error() is None]

    def rewind(self) -> Mapping[int, int] | None:
        try:
            mine = self._consumer.assignment()
            committed = self._consumer.committed(mine, timeout=ASK_S) if mine else []
            if any(one.error is not None for one in committed):
                return None
            positions = {one.partition: max(one.offset, NOTHING_COMMITTED) for one in committed}
            for partition, offset in positions.items():
                self._consumer.seek(TopicPartition(self._topic, partition, max(offset, 0)))
        except KafkaException as refusal:
            note_error(refusal.args[0])
            return None
        return positions

    def _assigned(self, consumer: Consumer, _given: Sequence[TopicPartition]) -> None:
        self._moved = True
        self.group = consumer.consumer_group_metadata() if consumer.memberid() else None

    def _taken(self, _consumer: Consumer, _taken: Sequence[TopicPartition]) -> None:
        self._moved = True
        self.group = None


def _read(message: Message, now: int) -> ShownRecord:
    said = identifying(message.value(), message.headers())
    return ShownRecord(now, message.partition(), message.offset(), decode(said))


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


# --- a program under test -------------------------------------------------------------------------


READ_S = 10.0
"""The longest time that a call may take that is not about a transaction, in seconds."""


class TransformerProgram(ProgramClient):
    """A program that reads and writes in one session; see :class:`GroupReader`.

    Its calls raise CallFailed, too. Rebalances that it reports are answered at once.
    """

    def __init__(self, spec: TransactionalSpec, report: Report) -> None:
        super().__init__(spec, ASK_S, report)
        self._has: set[int] = set()
        self._moved = False
        self._records: list[Record | Tombstone] = []
        self._committed: dict[int, int] = {}

    @property
    def group(self) -> Any:
        return frozenset(self._has) or None

    def poll(self) -> Sequence[ShownRecord] | None:
        self._records.clear()
        self._call(Poll(), READ_S)
        now, moved, self._moved = time.time_ns(), self._moved, False
        if moved:
            return None
        return [
            ShownRecord(now, one.partition, one.offset, _identity(one)) for one in self._records
        ]

    def rewind(self) -> Mapping[int, int] | None:
        partitions = tuple(sorted(self._has))
        if not partitions:
            return {}
        self._committed.clear()
        self._call(Committed(partitions), READ_S)
        if self._committed.keys() != set(partitions):
            raise ProgramFailed("the program did not say what is committed of each partition")
        for partition, offset in self._committed.items():
            self._call(Seek(partition, max(offset, 0)), READ_S)
        return dict(self._committed)

    def close(self) -> None:
        """Leave the group, unless the program hangs, and end it at once.

        Others have the partitions the sooner. Nothing is committed or aborted by that.
        """
        with suppress(CallFailed, ProgramFailed):
            if self.ready and not self._asked:
                self._call(Close(), READ_S)
        super().close()

    def _note(self, saying: Saying) -> None:
        match saying:
            case Assigned(partitions):
                self._has.update(partitions)
                self._rebalanced()
            case Revoked(partitions) | Lost(partitions):
                self._has.difference_update(partitions)
                self._rebalanced()
            case Record() | Tombstone():
                self._records.append(saying)
            case Offset(partition, offset):
                self._committed[partition] = NOTHING_COMMITTED if offset is None else offset
            case other:
                super()._note(other)

    def _rebalanced(self) -> None:
        self._moved = True
        self._program.tell(encode_command(Proceed()))


def _identity(one: Record | Tombstone) -> Identity | None:
    return decode(one.identity if isinstance(one, Tombstone) else one.value)


# --- the transformer ------------------------------------------------------------------------------


class Transformer:
    """A transformer that reads, transforms and sends until it is told to stop.

    Args:
        reader_of: Returns the reader of a session.
    """

    def __init__(
        self,
        spec: TransformerSpec,
        recorder: TransactionRecorder,
        keep: Keep,
        lives: SessionSequence,
        reader_of: Callable[[ProducerSession], GroupReader],
    ) -> None:
        self._recorder = recorder
        self._keep = keep
        self._lives = lives
        self._reader_of = reader_of
        self._draws = ClientDraws(spec)
        self._session: ProducerSession | None = None
        self._reads: list[ShownRecord] = []
        self._astray = False

    def run(self, stopping: Callable[[], bool]) -> None:
        """Transform until ``stopping``."""
        self._session = self._lives.next()
        while self._session is not None and not stopping():
            self._turn(self._session)
        if self._session is not None:
            self._session.close()

    def _turn(self, session: ProducerSession) -> None:
        self._keep(time.monotonic())
        if self._astray:
            self._astray = not self._rewound(session)
            session.serve(0)
        else:
            self._transform_poll(session)
        if session.over:
            self._astray = True
            session.close()
            self._session = self._lives.next()

    def _transform_poll(self, session: ProducerSession) -> None:
        """Read once more, and transform what was read, if anything must be."""
        reader = self._reader_of(session)
        shown = self._asked(session, reader.poll)
        session.serve(0)
        if shown is None:
            self._reads.clear()
            self._astray = True
            return
        self._reads += shown
        if reader.group is not None and any(map(_to_transform, self._reads)):
            committed = self._transform(session, reader.group)
            self._reads.clear()
            self._astray = not committed

    def _transform(self, session: ProducerSession, group: Any) -> bool:
        """Run one transaction, and return whether it was committed."""
        if not session.begin():
            return False
        made = [
            (read, session.send(self._draws.record()) if _to_transform(read) else None)
            for read in self._reads
        ]
        self._recorder.read(session.number, session.transaction, made)
        positions = {read.partition: read.offset + 1 for read in self._reads}
        sent = session.send_offsets(positions, group)
        if not sent or self._draws.end() is not TransactionEnd.COMMIT:
            session.abort()
            return False
        return session.commit()

    def _rewound(self, session: ProducerSession) -> bool:
        """Return whether all its partitions are read again from the group's position."""
        positions = self._asked(session, self._reader_of(session).rewind)
        if positions is None:
            return False
        self._recorder.offsets(session.number, session.transaction, FETCHED, positions)
        return True

    def _asked(self, session: ProducerSession, ask: Callable[[], T | None]) -> T | None:
        """Return what the reader answers, or None if it failed. A program that has failed for good
        ends its session."""
        try:
            return ask()
        except CallFailed as failure:
            _log.warning("%s", failure)
            session.over |= failure.remedy is Remedy.FATAL
            return None


def _to_transform(read: ShownRecord) -> bool:
    return read.identity is not None and read.identity.producer < TRANSFORMERS


def program_of(session: ProducerSession) -> TransformerProgram:
    """Return the program of a session, which is its reader, too."""
    assert isinstance(session.client, TransformerProgram)
    return session.client


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Transform as the specification file says, until ``stopping``."""
    spec = load(TransformerSpec, specification)
    with recording(spec, time.time_ns) as (recorder, keep), ExitStack() as closing_all:
        make: Callable[[TransactionalSpec, Report], TransactionalClient] = TransformerProgram
        reader_of: Callable[[ProducerSession], GroupReader] = program_of
        if spec.library == LIBRDKAFKA:
            reader = closing_all.enter_context(closing(LibrdkafkaReader(spec)))
            make, reader_of = client_of, lambda _session: reader
        lives = SessionSequence(spec, recorder, keep, stopping, make)
        Transformer(spec, recorder, keep, lives, reader_of).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
