"""One session: a life of a ``transactional.id``, from ``init_transactions`` to whatever ends it.

Most calls ask for at most :data:`ASK_S`, again and again until they are answered or
:data:`DECIDE_S` have passed, so that the history is flushed meanwhile. A session whose transaction
nobody knows the outcome of, or that has failed for good, is over (:attr:`Session.over`): the next
one's ``init_transactions`` decides what it left open.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from history.payload import Encoder
from history.schema import SendType
from history.transactional import TransactionEvent
from workloads.outcomes import of_refusal, of_report
from workloads.process import note_error
from workloads.sending import Keep
from workloads.spec import SpecificationError
from workloads.transactions.outcomes import of_answer
from workloads.transactions.recording import TransactionRecorder
from workloads.transactions.spec import TransactionalSpec, session_properties

ASK_S = 1.0
DECIDE_S = 15.0
PAUSE_S = 0.1
"""Between two questions."""
PURGE_S = 2.0
"""How long purged records may take to be reported."""


class Session:
    """A session's producer. Raises (constructor) SpecificationError for properties that librdkafka
    does not take, and for records that are too small."""

    def __init__(
        self, spec: TransactionalSpec, number: int, recorder: TransactionRecorder, keep: Keep
    ) -> None:
        self.number = number
        self.over = False
        self.transaction = 0
        self.open = False
        self.sent = 0
        """Records in the open transaction."""
        self._topic = spec.topic
        self._recorder = recorder
        self._keep = keep
        self._sends = recorder.sends_of(number)
        try:
            self._encode = Encoder(spec.cell, number, spec.record_bytes).encode
            self._client = Producer({**session_properties(spec), "error_cb": note_error})
        except ValueError as error:
            raise SpecificationError(str(error)) from None
        except KafkaException as refusal:
            raise SpecificationError(f"librdkafka refuses: {refusal.args[0].str()}") from None

    def init(self) -> bool:
        """Take over the ``transactional.id``; whether that was answered. If not, it is over."""
        error = self._ask(TransactionEvent.INIT, self._client.init_transactions)
        self.over |= error is not None
        return not self.over

    def begin(self) -> bool:
        """Whether a transaction has begun."""
        try:
            self._client.begin_transaction()
        except KafkaException as refusal:
            note_error(refusal.args[0])
            self.over = True
            return False
        self.transaction += 1
        self.open, self.sent = True, 0
        self._recorder.began(self.number, self.transaction, self._sends.figures()["sent"])
        return True

    def send(self, partition: int) -> int:
        """Send a record of the open transaction; its sequence number."""
        (sequence,) = self._sends.invoke([partition], [None])
        self.sent += 1
        report = partial(self._delivered, sequence)
        value = self._encode(sequence)
        try:
            self._client.produce(self._topic, value, partition=partition, on_delivery=report)
        except BufferError:
            self._refused(sequence, KafkaError(KafkaError._QUEUE_FULL))
        except KafkaException as refusal:
            self._refused(sequence, refusal.args[0])
        return sequence

    def send_offsets(self, positions: Mapping[int, int], group: Any) -> bool:
        """Send the offsets of what was read to the open transaction; whether that was answered.
        ``group``: the consumer's metadata."""
        offsets = [TopicPartition(self._topic, *position) for position in positions.items()]
        tell = partial(self._recorder.offsets, self.number, self.transaction)
        tell(SendType.INVOKE, positions)
        ask = partial(self._client.send_offsets_to_transaction, offsets, group)
        # All the time at once: asked again after a timeout, librdkafka 2.16 was seen to hang.
        error, again = self._asked(ask, DECIDE_S)
        name = None if error is None else error.name()
        tell(of_answer(error, asked_before=again), positions, name)
        return error is None

    def commit(self) -> bool:
        """End the open transaction with a commit; whether that was answered. Where the client
        library asks for an abort instead, it is aborted."""
        error = self._ask(TransactionEvent.COMMIT, self._client.commit_transaction)
        if error is not None and error.txn_requires_abort():
            self.abort()
            return False
        self._ended(error)
        return error is None

    def abort(self) -> None:
        """End the open transaction with an abort, when its records are delivered, if they are.

        Purged before its partitions are added to the transaction, it would be aborted before there
        is one: the coordinator, still at the last one, answers INVALID_TXN_STATE, and that is fatal
        (librdkafka 2.16 on Kafka 4.1). And nobody would be shown what was aborted.
        """
        deadline = time.monotonic() + ASK_S
        while len(self._client) and not self.over and time.monotonic() < deadline:
            self.serve(PAUSE_S)
        self._ended(self._ask(TransactionEvent.ABORT, self._client.abort_transaction))

    def serve(self, seconds: float) -> None:
        """Let the client library call back for so long. A fatal error is raised here, by whichever
        call comes first: with it the session is over."""
        self._call(self._client.poll, seconds)
        self._keep(time.monotonic())

    def close(self) -> None:
        """Give up what is under way: of unknown outcome. What is open stays so."""
        self.over = True
        self._client.purge()
        self._call(self._client.flush, PURGE_S)
        self._sends.abandon(KafkaError(KafkaError._TIMED_OUT).name())

    def _call(self, serve: Callable[[float], int], seconds: float) -> None:
        try:
            serve(seconds)
        except KafkaException as refusal:
            note_error(refusal.args[0])
            self.over = True
        except SystemError:
            # confluent-kafka 2.16 calls back while a fatal error is already on its way.
            note_error(KafkaError(KafkaError._FATAL))
            self.over = True

    def _ended(self, error: KafkaError | None) -> None:
        self.open = False
        self.over |= error is not None

    def _ask(self, event: TransactionEvent, ask: Callable[[float], object]) -> KafkaError | None:
        """Record and ask; the error with which it ended. The error is recorded at once, whatever
        is asked next."""
        transaction = 0 if event is TransactionEvent.INIT else self.transaction
        self._recorder.asks(self.number, transaction, event)
        error, again = self._asked(ask)
        name = None if error is None else error.name()
        outcome = of_answer(error, asked_before=again)
        self._recorder.answered(self.number, transaction, event, outcome, name)
        return error

    def _asked(
        self, ask: Callable[[float], object], seconds: float = ASK_S
    ) -> tuple[KafkaError | None, bool]:
        """The error with which it ended, and whether it was asked more than once. ``seconds``: for
        each time."""
        deadline = time.monotonic() + DECIDE_S
        again = False
        while True:
            try:
                ask(seconds)
            except KafkaException as refusal:
                error: KafkaError = refusal.args[0]
                if not error.retriable() or time.monotonic() >= deadline:
                    note_error(error)
                    return error, again
                again = True
                self.serve(PAUSE_S)
            except SystemError:  # as in _call
                return KafkaError(KafkaError._FATAL), again
            else:
                return None, again

    def _refused(self, sequence: int, error: KafkaError) -> None:
        self._sends.resolve(sequence, of_refusal(error), error=error.name())

    def _delivered(self, sequence: int, error: KafkaError | None, message: Message) -> None:
        self._sends.resolve(
            sequence,
            of_report(error),
            offset=message.offset() if error is None else None,
            error=None if error is None else error.name(),
        )
