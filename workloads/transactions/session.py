"""One session: a life of a ``transactional.id``, from ``init_transactions`` to its end.

Most calls ask for at most :data:`ASK_S`, again and again until they are answered or
:data:`DECIDE_S` have passed, so that the history is flushed meanwhile. A session is over
(:attr:`ProducerSession.over`) if the outcome of its transaction is unknown, or if it has failed for
good. The next one's ``init_transactions`` decides what it left open.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any

from ackproof.history.cell import LIBRDKAFKA
from ackproof.history.payload import Encoder
from ackproof.history.schema import SendType
from ackproof.history.transactional import TransactionEvent, producer_number
from ackproof.workloads.foreign.protocol import Remedy
from ackproof.workloads.outcomes import OFFSETS, TIMED_OUT, of_answer
from ackproof.workloads.producing.recorder import Keep
from ackproof.workloads.spec import SpecificationError
from ackproof.workloads.transactions.clients import (
    CallFailed,
    LibrdkafkaClient,
    ProgramClient,
    Report,
    TransactionalClient,
)
from ackproof.workloads.transactions.recorder import TransactionRecorder
from ackproof.workloads.transactions.spec import TransactionalSpec, TransformerSpec

# --- one session ----------------------------------------------------------------------------------

_log = logging.getLogger(__name__)

ASK_S = 1.0
DECIDE_S = 15.0
PAUSE_S = 0.1
"""The pause between two questions, in seconds."""


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
        self._client = make(spec, self._sends.resolve)

    @property
    def ready(self) -> bool:
        """Whether its client library is there; until then it must be served."""
        return self._client.ready

    def init(self) -> bool:
        """Take over the ``transactional.id``, and return whether that was answered.

        If it was not, the session is over.
        """
        failure = self._ask(TransactionEvent.INIT, self._client.init)
        self.over |= failure is not None
        return not self.over

    def begin(self) -> bool:
        """Return whether a transaction has begun."""
        if not self._succeeds(self._client.begin):
            return False
        self.transaction += 1
        self.open, self.sent = True, 0
        self._recorder.began(self.number, self.transaction, self._sends.figures()["sent"])
        return True

    def send(self, partition: int) -> int:
        """Send a record of the open transaction, and return its sequence number."""
        (sequence,) = self._sends.invoke([partition])
        self.sent += 1
        self._client.send(sequence, partition, self._encode(sequence))
        return sequence

    def send_offsets(self, positions: Mapping[int, int], group: Any) -> bool:
        """Send the offsets of what was read to the open transaction, and return whether that was
        answered.

        ``group`` is the consumer's metadata. Only librdkafka's sessions can do this, because the
        consumer must be of the same library.
        """
        assert isinstance(self._client, LibrdkafkaClient), "the campaign refuses transformers"
        tell = partial(self._recorder.offsets, self.number, self.transaction)
        tell(SendType.INVOKE, positions)
        ask = partial(self._client.send_offsets, positions, group)
        # The call gets all the time at once: asked again after a timeout, librdkafka 2.16 was seen
        # to hang.
        failure, again = self._asked(ask, DECIDE_S)
        name = None if failure is None else failure.name
        tell(of_answer(self._library, OFFSETS, name, asked_before=again), positions, name)
        return failure is None

    def commit(self) -> bool:
        """End the open transaction with a commit, and return whether that was answered.

        Where the client library asks for an abort instead, it is aborted.
        """
        failure = self._ask(TransactionEvent.COMMIT, self._client.commit)
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
        while self._client.waiting and not self.over and time.monotonic() < deadline:
            self.serve(PAUSE_S)
        self._ended(self._ask(TransactionEvent.ABORT, self._client.abort))

    def serve(self, seconds: float) -> None:
        """Let the client library call back for so long; with a fatal error the session is over."""
        self._succeeds(partial(self._client.serve, seconds))
        self._keep(time.monotonic())

    def close(self) -> None:
        """Give up what is under way, with an unknown outcome; an open transaction stays open."""
        self.over = True
        self._client.close()
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

    def partition(self) -> int:
        """Return the partition of a record."""
        return self._random.randrange(self._spec.partitions)


class SessionSequence:
    """The client's sessions; ``stopping`` returns whether it was asked to stop."""

    def __init__(
        self,
        spec: TransactionalSpec,
        recorder: TransactionRecorder,
        keep: Keep,
        stopping: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._recorder = recorder
        self._keep = keep
        self._stopping = stopping
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

    def fence(self, zombie: ProducerSession, partition: int) -> ProducerSession | None:
        """Have another session take over while ``zombie`` has a transaction open.

        The zombie goes on as if that had not happened: it sends one more record, and asks for the
        commit.
        """
        successor = self.next()
        if successor is not None:
            zombie.send(partition)
            zombie.commit()
        zombie.close()
        return successor

    def _new(self) -> ProducerSession:
        transformer = isinstance(self._spec, TransformerSpec)
        number = producer_number(self._spec.producer, self._begun, transformer=transformer)
        self._begun += 1
        return ProducerSession(self._spec, number, self._recorder, self._keep)
