"""One session: a life of a ``transactional.id``, from ``init_transactions`` to its end.

Most calls ask for at most :data:`ASK_S`, again and again until they are answered or
:data:`DECIDE_S` have passed, so that the history is flushed meanwhile. A session is over
(:attr:`ProducerSession.over`) if the outcome of its transaction is unknown, or if it has failed for
good. The next one's ``init_transactions`` decides what it left open.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ackproof.history.cell import LIBRDKAFKA
from ackproof.history.names import SendType
from ackproof.history.payload import TOMBSTONE_HEADER, Encoder
from ackproof.history.transactional import TransactionEvent, producer_number
from ackproof.workloads.foreign.program import (
    READY_S,
    ProgramFailed,
    RunningProgram,
    check_version,
    greeted,
    greeting,
)
from ackproof.workloads.foreign.protocol import (
    KEYED_VERSION,
    VERSION,
    Abort,
    Acked,
    Begin,
    Command,
    Commit,
    Done,
    EndOfPoll,
    Failed,
    Fatal,
    Flushed,
    Init,
    Ready,
    Refused,
    Remedy,
    Saying,
    SendKeyed,
    SendOffsets,
    SendTombstone,
    Undone,
    encode_command,
    is_answer,
    send_line,
)
from ackproof.workloads.librdkafka.keys import keys_of
from ackproof.workloads.outcomes import (
    OFFSETS,
    TIMED_OUT,
    of_answer,
    of_program_refusal,
    of_refusal,
    of_report,
)
from ackproof.workloads.process import note_error, within
from ackproof.workloads.producing.recorder import Keep, tombstone_encoder
from ackproof.workloads.spec import SpecificationError
from ackproof.workloads.transactions.recorder import TransactionRecorder
from ackproof.workloads.transactions.spec import (
    TransactionalSpec,
    TransformerSpec,
    program_properties,
    session_properties,
    transformer_properties,
)

# --- client libraries -----------------------------------------------------------------------------
#
# The calls of a session are made by librdkafka or by a program under test.


# --- the calls of a session -----------------------------------------------------------------------

Report = Callable[[int, SendType, int | None, str | None], None]
"""A function that is given the outcome of a record: its sequence number, outcome, offset and
error."""


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record for a client library.

    Attributes:
        partition: The partition to send it to.
        key: Its key, or None.
        value: Its value, or the identity of a tombstone.
        deletes: Whether it is a tombstone, which has a key.
    """

    partition: int
    key: bytes | None
    value: bytes
    deletes: bool = False


class CallFailed(Exception):
    """The error of a call that failed; ``name`` is that of the error in the library."""

    def __init__(self, name: str, remedy: Remedy, reason: str = "") -> None:
        super().__init__(f"{name} ({remedy}): {reason}" if reason else f"{name} ({remedy})")
        self.name = name
        self.remedy = remedy


class TransactionalClient(Protocol):
    """A transactional producer.

    Calls raise CallFailed; ``seconds`` is how long one waits for its answer. While any call is
    under way, the Report that the client was made with is given the outcome of records.
    """

    @property
    def ready(self) -> bool:
        """Whether calls may be made; until then it must be served."""

    @property
    def waiting(self) -> int:
        """The number of records without a report yet."""

    def init(self, seconds: float) -> None: ...

    def begin(self) -> None: ...

    def send(self, sequence: int, record: OutgoingRecord) -> None:
        """Hand a record over; a refusal is reported for the record, and not raised."""

    def send_offsets(self, positions: Mapping[int, int], group: Any, seconds: float) -> None:
        """Send offsets, by partition, to the open transaction.

        ``group`` is the metadata of the consumer that read up to there, as its library has it.
        """

    def commit(self, seconds: float) -> None: ...

    def abort(self, seconds: float) -> None: ...

    def serve(self, seconds: float) -> None:
        """Listen to the library for at most so long."""

    def close(self) -> None:
        """Give up what is under way; an open transaction stays open.

        Records without a report by then will never get one. This raises nothing.
        """


# --- librdkafka -----------------------------------------------------------------------------------

PURGE_S = 2.0
"""How long purged records may take to be reported, in seconds."""
GRACE_S = 5.0
"""How long a call may take beyond the time that it was given, in seconds."""


class LibrdkafkaClient:
    """A client of librdkafka; see :class:`workloads.transactions.session.TransactionalClient`.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    ready = True

    def __init__(self, spec: TransactionalSpec, report: Report) -> None:
        self._hangs = False
        self._topic = spec.topic
        self._report = report
        try:
            self._producer = Producer({**session_properties(spec), "error_cb": note_error})
        except KafkaException as refusal:
            raise SpecificationError(f"librdkafka refuses: {refusal.args[0].str()}") from None

    @property
    def waiting(self) -> int:
        return len(self._producer)

    def init(self, seconds: float) -> None:
        with _failing():
            self._producer.init_transactions(seconds)

    def begin(self) -> None:
        with _failing():
            self._producer.begin_transaction()

    def send(self, sequence: int, record: OutgoingRecord) -> None:
        what: dict[str, Any] = {"value": record.value}
        if record.deletes:
            what = {"headers": [(TOMBSTONE_HEADER, record.value)]}
        if record.key is not None:
            what["key"] = record.key
        report = partial(self._delivered, sequence)
        try:
            self._producer.produce(
                self._topic, partition=record.partition, on_delivery=report, **what
            )
        except BufferError:
            self._refused(sequence, KafkaError(KafkaError._QUEUE_FULL))
        except KafkaException as refusal:
            self._refused(sequence, refusal.args[0])

    def send_offsets(self, positions: Mapping[int, int], group: Any, seconds: float) -> None:
        """Send offsets as :class:`TransactionalClient` says.

        librdkafka 2.16 may not come back, whatever time it is given. The coordinator was cut off
        while it was asked to add the offsets' partition and another one. Both timed out, and
        neither was asked again. A client that waited for it would be silent until it is killed.
        """
        offsets = [TopicPartition(self._topic, *position) for position in positions.items()]
        call = partial(self._producer.send_offsets_to_transaction, offsets, group, seconds)
        try:
            with _failing():
                within(seconds + GRACE_S, call)
        except TimeoutError:
            self._hangs = True
            reason = f"send_offsets_to_transaction had {seconds} s and did not come back"
            raise CallFailed(TIMED_OUT, Remedy.FATAL, reason) from None

    def commit(self, seconds: float) -> None:
        with _failing():
            self._producer.commit_transaction(seconds)

    def abort(self, seconds: float) -> None:
        with _failing():
            self._producer.abort_transaction(seconds)

    def serve(self, seconds: float) -> None:
        """Listen; any call may raise a fatal error here, whichever comes first."""
        with _failing():
            self._producer.poll(seconds)

    def close(self) -> None:
        """Close the client; one that hangs is abandoned, and the next session fences it."""
        if self._hangs:
            return
        self._producer.purge()
        with suppress(CallFailed), _failing():
            self._producer.flush(PURGE_S)

    def _refused(self, sequence: int, error: KafkaError) -> None:
        self._report(sequence, of_refusal(error), None, error.name())

    def _delivered(self, sequence: int, error: KafkaError | None, message: Message) -> None:
        offset = message.offset() if error is None else None
        self._report(sequence, of_report(error), offset, None if error is None else error.name())


@contextmanager
def _failing() -> Iterator[None]:
    """Raise what confluent-kafka raises as CallFailed."""
    try:
        yield
    except KafkaException as refusal:
        raise _call_failed(refusal.args[0]) from None
    except SystemError:
        # confluent-kafka 2.16 calls back while a fatal error is already being raised.
        raise _call_failed(KafkaError(KafkaError._FATAL)) from None


def _call_failed(error: KafkaError) -> CallFailed:
    if error.retriable():
        remedy = Remedy.RETRIABLE
    else:
        remedy = Remedy.ABORTABLE if error.txn_requires_abort() else Remedy.FATAL
    return CallFailed(error.name(), remedy, error.str())


# --- a program under test -------------------------------------------------------------------------
#
# Each session has a program of its own, which is killed when the session is over: a library that is
# asked to close may abort what is open. A program that breaks a rule ends its client, with
# everything that was recorded: see :mod:`workloads.foreign.producer`.

ANSWER_S = 10.0
"""How much longer than its limit a call may take, in seconds, before its program counts as one that
hangs."""


class ProgramClient:
    """A client that is a program; see :class:`workloads.transactions.session.TransactionalClient`.

    Each method that listens to the program raises ProgramFailed when the program breaks a rule. The
    constructor raises SpecificationError for what the protocol cannot say, and ProgramFailed where
    the program cannot be started.
    """

    def __init__(self, spec: TransactionalSpec, seconds: float, report: Report) -> None:
        """Start the program; ``seconds`` is how long each call waits for its answer."""
        self._library = spec.library
        self._version = version_of(spec)
        self._report = report
        self.ready = False
        self._pending: set[int] = set()
        self._asked = False
        self._answer: Done | Undone | EndOfPoll | None = None
        first = _greeting(spec, seconds)
        self._ready_by = time.monotonic() + READY_S
        self._program = RunningProgram(spec.program)
        self._program.tell(first)

    @property
    def waiting(self) -> int:
        return len(self._pending)

    def init(self, seconds: float) -> None:
        self._call(Init(), seconds)

    def begin(self) -> None:
        self._call(Begin(), 0.0)

    def send(self, sequence: int, record: OutgoingRecord) -> None:
        self._pending.add(sequence)
        if record.key is None:
            self._program.tell(send_line(sequence, record.partition, record.value))
            return
        keyed = SendTombstone if record.deletes else SendKeyed
        command = keyed(sequence, record.partition, record.key, record.value)
        self._program.tell(encode_command(command))

    def send_offsets(self, positions: Mapping[int, int], _group: Any, seconds: float) -> None:
        """Send offsets; the program has the metadata of its consumer."""
        self._call(SendOffsets(positions), seconds)

    def commit(self, seconds: float) -> None:
        self._call(Commit(), seconds)

    def abort(self, seconds: float) -> None:
        self._call(Abort(), seconds)

    def serve(self, seconds: float) -> None:
        if self.ready:
            self._hear(seconds)
            return
        with greeted(self._library, self._version):
            self._hear(seconds)
        if not self.ready and time.monotonic() >= self._ready_by:
            raise ProgramFailed(f"the program was not ready within {READY_S:g} s")

    def close(self) -> None:
        with suppress(ProgramFailed):
            self.serve(0.0)
        self._program.kill()

    def _hear(self, seconds: float) -> None:
        for saying in self._program.hear(seconds):
            self._note(saying)

    def _call(self, command: Command, seconds: float) -> None:
        self._answer, self._asked = None, True
        self._program.tell(encode_command(command))
        deadline = time.monotonic() + seconds + ANSWER_S
        while self._answer is None:
            left = deadline - time.monotonic()
            # A process that was paused together with its program hears it before it gives it up.
            self.serve(left if left > 0 else ASK_S)
            if self._answer is None and left <= 0:
                raise CallFailed(TIMED_OUT, Remedy.FATAL, "the program did not come back")
        if not is_answer(self._answer, command):
            raise ProgramFailed(f"the program answered {type(command).__name__} by another word")
        if isinstance(self._answer, Undone):
            raise CallFailed(self._answer.error, self._answer.remedy)

    def _note(self, saying: Saying) -> None:
        match saying:
            case Acked(number, offset):
                self._record(number, SendType.OK, offset, None)
            case Refused(number, error):
                self._record(number, of_program_refusal(self._library, error), None, error)
            case Failed(number, error):
                self._record(number, SendType.INFO, None, error)
            case Done() | Undone() | EndOfPoll():
                if not self._asked:
                    raise ProgramFailed("the program answered without a question")
                self._answer, self._asked = saying, False
            case Ready() as ready:
                check_version(ready, self._version)
                self.ready = True
            case Flushed():
                raise ProgramFailed("the program has flushed without an order")
            case Fatal(reason):
                raise ProgramFailed(f"the program cannot go on: {reason}")
            case other:
                raise ProgramFailed(f"a producer's program said {type(other).__name__}")

    def _record(
        self, number: int, outcome: SendType, offset: int | None, error: str | None
    ) -> None:
        if number not in self._pending:
            raise ProgramFailed(
                f"the program reported record {number}, which has no pending outcome"
            )
        self._pending.remove(number)
        self._report(number, outcome, offset, error)


def version_of(spec: TransactionalSpec) -> int:
    """Return the version of the protocol that the program of a session must speak."""
    return VERSION if spec.keys is None else KEYED_VERSION


def _greeting(spec: TransactionalSpec, seconds: float) -> bytes:
    properties = {
        "bootstrap.servers": spec.bootstrap_servers,
        "client.id": spec.client,
        "acks": spec.acks,
        "max.block.ms": str(round(seconds * 1000)),
        **program_properties(spec),
    }
    reads = transformer_properties(spec) if isinstance(spec, TransformerSpec) else None
    version = version_of(spec)
    return greeting([spec.topic], properties, spec.library, consumer=reads, version=version)


# --- session --------------------------------------------------------------------------------------


# --- one session ----------------------------------------------------------------------------------

_log = logging.getLogger(__name__)

ASK_S = 1.0
DECIDE_S = 15.0
PAUSE_S = 0.1
"""The pause between two questions, in seconds."""


class RecordDraw(NamedTuple):
    """The drawn part of a record. ``key`` is the number of its key, or None; ``deletes`` is whether
    it is a tombstone."""

    partition: int
    key: int | None = None
    deletes: bool = False


def client_of(spec: TransactionalSpec, report: Report) -> TransactionalClient:
    """Return a session's client: librdkafka, or the program of another library; raise as
    these do."""
    if spec.library == LIBRDKAFKA:
        return LibrdkafkaClient(spec, report)
    return ProgramClient(spec, ASK_S, report)


class ProducerSession:
    """A session's producer.

    The constructor raises SpecificationError for properties that the client library does not take,
    and for records that are too small.
    """

    def __init__(
        self,
        spec: TransactionalSpec,
        number: int,
        recorder: TransactionRecorder,
        keep: Keep,
        make: Callable[[TransactionalSpec, Report], TransactionalClient] = client_of,
    ) -> None:
        self.number = number
        self.over = False
        self.transaction = 0
        self.open = False
        self.sent = 0
        """The number of records in the open transaction."""
        self._library = spec.library
        self._recorder = recorder
        self._keep = keep
        self._sends = recorder.sends_of(number)
        try:
            self._encode = Encoder(spec.cell, number, spec.record_bytes).encode
        except ValueError as error:
            raise SpecificationError(str(error)) from None
        self._keys = keys_of(spec.keys, spec.partitions, None)
        self._identities = tombstone_encoder(spec, number)
        self.client = make(spec, self._sends.resolve)

    @property
    def ready(self) -> bool:
        """Whether its client library is there; until then it must be served."""
        return self.client.ready

    def init(self) -> bool:
        """Take over the ``transactional.id``, and return whether that was answered.

        If it was not, the session is over.
        """
        failure = self._ask(TransactionEvent.INIT, self.client.init)
        self.over |= failure is not None
        return not self.over

    def begin(self) -> bool:
        """Return whether a transaction has begun."""
        if not self._succeeds(self.client.begin):
            return False
        self.transaction += 1
        self.open, self.sent = True, 0
        self._recorder.began(self.number, self.transaction, self._sends.figures()["sent"])
        return True

    def send(self, drawn: RecordDraw) -> int:
        """Send a record of the open transaction, and return its sequence number."""
        keys = None if drawn.key is None else np.array([drawn.key])
        deletes = None if self._identities is None else np.array([drawn.deletes])
        (sequence,) = self._sends.invoke([drawn.partition], keys=keys, tombstones=deletes)
        self.sent += 1
        self.client.send(sequence, self._record(sequence, drawn))
        return sequence

    def _record(self, sequence: int, drawn: RecordDraw) -> OutgoingRecord:
        if self._keys is None or drawn.key is None:
            return OutgoingRecord(drawn.partition, None, self._encode(sequence))
        key = self._keys.text(drawn.key)
        if drawn.deletes and self._identities is not None:
            identity = self._identities.encode(sequence)
            return OutgoingRecord(drawn.partition, key, identity, deletes=True)
        return OutgoingRecord(drawn.partition, key, self._encode(sequence))

    def send_offsets(self, positions: Mapping[int, int], group: Any) -> bool:
        """Send the offsets of what was read to the open transaction, and return whether that was
        answered.

        ``group`` is the metadata of the session's consumer.
        """
        tell = partial(self._recorder.offsets, self.number, self.transaction)
        tell(SendType.INVOKE, positions)
        ask = partial(self.client.send_offsets, positions, group)
        # The call gets all the time at once: asked again after a timeout, librdkafka 2.16 was seen
        # to hang.
        seconds = DECIDE_S if self._library == LIBRDKAFKA else ASK_S
        failure, again = self._asked(ask, seconds)
        name = None if failure is None else failure.name
        tell(of_answer(self._library, OFFSETS, name, asked_before=again), positions, name)
        return failure is None

    def commit(self) -> bool:
        """End the open transaction with a commit, and return whether that was answered.

        Where the client library asks for an abort instead, it is aborted.
        """
        failure = self._ask(TransactionEvent.COMMIT, self.client.commit)
        if failure is not None and failure.remedy is Remedy.ABORTABLE:
            self.abort()
            return False
        self._ended(failure)
        return failure is None

    def abort(self) -> None:
        """End the open transaction with an abort, when its records are delivered, if they are.

        Records that are purged before their partitions are added to the transaction would be
        aborted before there is one. The coordinator, still at the last one, answers
        INVALID_TXN_STATE, and that is fatal (librdkafka 2.16 on Kafka 4.1). No reader would be
        shown what was aborted, either.
        """
        deadline = time.monotonic() + ASK_S
        while self.client.waiting and not self.over and time.monotonic() < deadline:
            self.serve(PAUSE_S)
        self._ended(self._ask(TransactionEvent.ABORT, self.client.abort))

    def serve(self, seconds: float) -> None:
        """Let the client library call back for so long; with a fatal error the session is over."""
        self._succeeds(partial(self.client.serve, seconds))
        self._keep(time.monotonic())

    def close(self) -> None:
        """Give up what is under way, with an unknown outcome; an open transaction stays open."""
        self.over = True
        self.client.close()
        self._sends.abandon(TIMED_OUT)

    def _succeeds(self, call: Callable[[], None]) -> bool:
        """Make an unrecorded call, and return whether it succeeds; otherwise the session is
        over."""
        try:
            call()
        except CallFailed as failure:
            _log.warning("%s", failure)
            self.over = True
            return False
        return True

    def _ended(self, failure: CallFailed | None) -> None:
        self.open = False
        self.over |= failure is not None

    def _ask(self, event: TransactionEvent, ask: Callable[[float], None]) -> CallFailed | None:
        """Record and ask, and return the failure with which it ended.

        The failure is recorded at once, whatever is asked next.
        """
        transaction = 0 if event is TransactionEvent.INIT else self.transaction
        self._recorder.asks(self.number, transaction, event)
        failure, again = self._asked(ask)
        name = None if failure is None else failure.name
        outcome = of_answer(self._library, event, name, asked_before=again)
        self._recorder.answered(self.number, transaction, event, outcome, name)
        return failure

    def _asked(
        self, ask: Callable[[float], None], seconds: float = ASK_S
    ) -> tuple[CallFailed | None, bool]:
        """Return the failure with which it ended, and whether it was asked more than once.

        ``seconds`` is the limit of each time.
        """
        deadline = time.monotonic() + DECIDE_S
        again = False
        while True:
            try:
                ask(seconds)
            except CallFailed as failure:
                if failure.remedy is not Remedy.RETRIABLE or time.monotonic() >= deadline:
                    _log.warning("%s", failure)
                    return failure, again
                again = True
                self.serve(PAUSE_S)
            else:
                return None, again


# --- the sessions of one client -------------------------------------------------------------------


class TransactionEnd(Enum):
    """The drawn end of a transaction."""

    COMMIT = auto()
    ABORT = auto()
    FENCE = auto()


class ClientDraws:
    """Everything that a client leaves to chance: the same for the same seed and client."""

    def __init__(self, spec: TransactionalSpec) -> None:
        self._random = random.Random(f"{spec.seed}/{spec.client}")
        self._spec = spec
        self._keys = keys_of(spec.keys, spec.partitions, None)

    def end(self) -> TransactionEnd:
        """Return the end of the next transaction."""
        drawn = self._random.random()
        if drawn < self._spec.fences:
            return TransactionEnd.FENCE
        return (
            TransactionEnd.ABORT
            if drawn < self._spec.fences + self._spec.aborts
            else TransactionEnd.COMMIT
        )

    def records(self) -> int:
        """Return how many records it has: from half of the average to one and a half times the
        average."""
        return self._random.randint(
            (self._spec.transaction_records + 1) // 2, 3 * self._spec.transaction_records // 2
        )

    def record(self) -> RecordDraw:
        """Return the partition of a record, or its key, which decides the partition, and whether it
        is a tombstone."""
        if self._keys is None:
            return RecordDraw(self._random.randrange(self._spec.partitions))
        key = self._random.randrange(len(self._keys.partitions))
        deletes = bool(self._spec.tombstones) and self._random.random() < self._spec.tombstones
        return RecordDraw(int(self._keys.partitions[key]), key, deletes)


class SessionSequence:
    """The client's sessions; ``stopping`` returns whether it was asked to stop, and ``make`` the
    client of a session."""

    def __init__(
        self,
        spec: TransactionalSpec,
        recorder: TransactionRecorder,
        keep: Keep,
        stopping: Callable[[], bool],
        make: Callable[[TransactionalSpec, Report], TransactionalClient] = client_of,
    ) -> None:
        self._spec = spec
        self._recorder = recorder
        self._keep = keep
        self._stopping = stopping
        self._make = make
        self._begun = 0

    def next(self) -> ProducerSession | None:
        """Return a session that has taken over the ``transactional.id`` from its last holder.

        The result is None when the client was asked to stop before one had.
        """
        while not self._stopping():
            session = self._new()
            while not session.ready and not self._stopping():
                session.serve(PAUSE_S)
            if session.ready and session.init():
                return session
            session.close()
            self._keep(time.monotonic())
        return None

    def fence(self, zombie: ProducerSession, drawn: RecordDraw) -> ProducerSession | None:
        """Have another session take over while ``zombie`` has a transaction open.

        The zombie goes on as if that had not happened: it sends one more record, and asks for the
        commit.
        """
        successor = self.next()
        if successor is not None:
            zombie.send(drawn)
            zombie.commit()
        zombie.close()
        return successor

    def _new(self) -> ProducerSession:
        transformer = isinstance(self._spec, TransformerSpec)
        number = producer_number(self._spec.producer, self._begun, transformer=transformer)
        self._begun += 1
        return ProducerSession(self._spec, number, self._recorder, self._keep, self._make)
