"""Transactional client libraries: the calls of a session, made by librdkafka or by a program under
test."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ackproof.history.schema import SendType
from ackproof.workloads.foreign.program import READY_S, ProgramFailed, RunningProgram, greeting
from ackproof.workloads.foreign.protocol import (
    Abort,
    Acked,
    Begin,
    Command,
    Commit,
    Done,
    Failed,
    Fatal,
    Flushed,
    Init,
    Ready,
    Refused,
    Remedy,
    Saying,
    Undone,
    encode_command,
    send_line,
)
from ackproof.workloads.outcomes import TIMED_OUT, of_program_refusal, of_refusal, of_report
from ackproof.workloads.process import note_error, within
from ackproof.workloads.spec import SpecificationError
from ackproof.workloads.transactions.spec import (
    TransactionalSpec,
    program_properties,
    session_properties,
)

# --- the calls of a session -----------------------------------------------------------------------

Report = Callable[[int, SendType, int | None, str | None], None]
"""A function that is given the outcome of a record: its sequence number, outcome, offset and
error."""


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

    def send(self, sequence: int, partition: int, value: bytes) -> None:
        """Hand a record over; a refusal is reported for the record, and not raised."""

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
    """A client of librdkafka; see :class:`workloads.transactions.clients.TransactionalClient`.

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

    def send(self, sequence: int, partition: int, value: bytes) -> None:
        report = partial(self._delivered, sequence)
        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=report)
        except BufferError:
            self._refused(sequence, KafkaError(KafkaError._QUEUE_FULL))
        except KafkaException as refusal:
            self._refused(sequence, refusal.args[0])

    def send_offsets(self, positions: Mapping[int, int], group: Any, seconds: float) -> None:
        """Send offsets, by partition, to the open transaction.

        ``group`` is the metadata of the consumer that read up to there, as confluent-kafka has it.

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
    """A client that is a program; see :class:`workloads.transactions.clients.TransactionalClient`.

    Each method that listens to the program raises ProgramFailed when the program breaks a rule. The
    constructor raises SpecificationError for what the protocol cannot say, and ProgramFailed where
    the program cannot be started.
    """

    def __init__(self, spec: TransactionalSpec, seconds: float, report: Report) -> None:
        """Start the program; ``seconds`` is how long each call waits for its answer."""
        self._library = spec.library
        self._report = report
        self.ready = False
        self._pending: set[int] = set()
        self._asked = False
        self._answer: Done | Undone | None = None
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

    def send(self, sequence: int, partition: int, value: bytes) -> None:
        self._pending.add(sequence)
        self._program.tell(send_line(sequence, partition, value))

    def commit(self, seconds: float) -> None:
        self._call(Commit(), seconds)

    def abort(self, seconds: float) -> None:
        self._call(Abort(), seconds)

    def serve(self, seconds: float) -> None:
        for saying in self._program.hear(seconds):
            self._note(saying)
        if not self.ready and time.monotonic() >= self._ready_by:
            raise ProgramFailed(f"the program was not ready within {READY_S:g} s")

    def close(self) -> None:
        with suppress(ProgramFailed):
            self.serve(0.0)
        self._program.kill()

    def _call(self, command: Command, seconds: float) -> None:
        self._answer, self._asked = None, True
        self._program.tell(encode_command(command))
        deadline = time.monotonic() + seconds + ANSWER_S
        while self._answer is None:
            if (left := deadline - time.monotonic()) <= 0:
                raise CallFailed(TIMED_OUT, Remedy.FATAL, "the program did not come back")
            self.serve(left)
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
            case Done() | Undone():
                if not self._asked:
                    raise ProgramFailed("the program answered without a question")
                self._answer, self._asked = saying, False
            case Ready():
                self.ready = True
            case Flushed():
                raise ProgramFailed("the program has flushed without an order")
            case Fatal(reason):
                raise ProgramFailed(f"the program cannot go on: {reason}")

    def _record(
        self, number: int, outcome: SendType, offset: int | None, error: str | None
    ) -> None:
        if number not in self._pending:
            raise ProgramFailed(
                f"the program reported record {number}, which has no pending outcome"
            )
        self._pending.remove(number)
        self._report(number, outcome, offset, error)


def _greeting(spec: TransactionalSpec, seconds: float) -> bytes:
    properties = {
        "bootstrap.servers": spec.bootstrap_servers,
        "client.id": spec.client,
        "acks": spec.acks,
        "max.block.ms": str(round(seconds * 1000)),
        **program_properties(spec),
    }
    return greeting(spec.topic, properties)
