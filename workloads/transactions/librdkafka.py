"""librdkafka as the client of a session."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ackproof.workloads.bounded import within
from ackproof.workloads.foreign.protocol import Remedy
from ackproof.workloads.process import note_error
from ackproof.workloads.producing.outcomes import TIMED_OUT, of_refusal, of_report
from ackproof.workloads.spec import SpecificationError
from ackproof.workloads.transactions.client import CallFailed, Report
from ackproof.workloads.transactions.spec import TransactionalSpec, session_properties

PURGE_S = 2.0
"""How long purged records may take to be reported."""
GRACE_S = 5.0
"""How long a call may take beyond the time that it was given."""


class LibrdkafkaClient:
    """See :class:`workloads.transactions.client.TransactionalClient`. Raises (constructor)
    SpecificationError for properties that librdkafka does not take."""

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
        """Send offsets, by partition, to the open transaction. ``group``: the metadata of the
        consumer that read up to there, as confluent-kafka has it.

        librdkafka 2.16 may not come back, whatever time it is given: the coordinator was cut off
        while it was asked to add the offsets' partition and another one, both timed out, and
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
        """A fatal error is raised here, by whichever call comes first."""
        with _failing():
            self._producer.poll(seconds)

    def close(self) -> None:
        """One that hangs is left behind: the next session fences it."""
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
    """What confluent-kafka raises, as CallFailed."""
    try:
        yield
    except KafkaException as refusal:
        raise _call_failed(refusal.args[0]) from None
    except SystemError:
        # confluent-kafka 2.16 calls back while a fatal error is already on its way.
        raise _call_failed(KafkaError(KafkaError._FATAL)) from None


def _call_failed(error: KafkaError) -> CallFailed:
    if error.retriable():
        remedy = Remedy.RETRIABLE
    else:
        remedy = Remedy.ABORTABLE if error.txn_requires_abort() else Remedy.FATAL
    return CallFailed(error.name(), remedy, error.str())
