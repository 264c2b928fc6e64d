"""The producer of one cell: ``python -m ackproof.workloads.producing.producer SPEC.json``.

It sends at its rate in an open loop (``workloads.producing.pacing``): how many records it sends
does not depend on how fast the brokers acknowledge them. Partitions take turns, and share
``queue.buffering.max.messages``. If the client's queue is full all the same (its limit in bytes),
the refusal is recorded as a ``fail``.

SIGTERM stops it. It sends no more, what is under way gets ``message.timeout.ms`` to resolve, and
the rest is purged and becomes ``info``.

A fatal client error ends a session. An idempotent producer has one when the sequence numbers of a
partition no longer fit, for example because the brokers lost acked records. librdkafka takes no
more records then, and what is under way is purged and becomes ``info``. The producer goes on in
another session, with a client of its own and under another number (``history.sessions``).

Without idempotence a new session would repair nothing, and the producer ends with exit status 1. A
client that knows no broker any more (``workloads.known_brokers``) ends a session of any producer.
"""

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.history.names import SendType
from ackproof.history.sessions import NO_BROKERS, SESSIONS_MAX, session_number
from ackproof.workloads.configuration import PARTITIONER, producer_properties
from ackproof.workloads.known_brokers import KnownBrokers
from ackproof.workloads.librdkafka.client import BatchProducer
from ackproof.workloads.librdkafka.keys import keys_of
from ackproof.workloads.librdkafka.messages import Reports
from ackproof.workloads.outcomes import TIMED_OUT, of_refusal, of_report
from ackproof.workloads.process import ClientFailed, main
from ackproof.workloads.producing.pacing import ProducerTurns
from ackproof.workloads.producing.recorder import Keep, SendRecorder, encoder, recording
from ackproof.workloads.spec import Config, ProducerSpec, load
from ackproof.workloads.unresolved import FEW

# --- delivery reports -----------------------------------------------------------------------------
#
# A record that was acknowledged in another partition than it was sent to is recorded as
# acknowledged without an offset, because it has no offset in its own partition. The checkers then
# find it ``lost`` there, and ``phantom`` in the partition to which it was never sent.

_log = logging.getLogger(__name__)


def record_reports(reports: Reports, recorder: SendRecorder, acknowledged: bool, now: int) -> None:
    """Record the outcomes of what was reported together.

    They are known since ``now``, in nanoseconds of the Unix epoch. ``acknowledged`` says whether
    brokers acknowledge records; without that, no offset is reported.
    """
    numbers, offsets, codes, _ = reports
    if len(numbers) <= FEW:
        _record_each(reports, recorder, acknowledged, now)
        return
    failed = codes != 0
    unknown = failed | (offsets < 0) | _misplaced(reports, recorder)
    known = None if not acknowledged else np.ma.masked_array(offsets, unknown)
    if not failed.any():
        recorder.resolve_all(numbers, SendType.OK, now, known, None)
        return
    errors = {code: KafkaError(code) if code else None for code in set(codes.tolist())}
    outcomes = {code: of_report(error) for code, error in errors.items()}
    names = {code: None if error is None else error.name() for code, error in errors.items()}
    recorder.resolve_all(
        numbers,
        [outcomes[code] for code in codes.tolist()],
        now,
        known,
        [names[code] for code in codes.tolist()],
    )


def _record_each(reports: Reports, recorder: SendRecorder, acknowledged: bool, now: int) -> None:
    """Record the same one by one."""
    rows = zip(*(values.tolist() for values in reports), strict=True)
    misplaced = _misplaced(reports, recorder).tolist()
    for place, (number, offset, code, _) in enumerate(rows):
        error = KafkaError(code) if code else None
        is_known = acknowledged and not code and offset >= 0 and not misplaced[place]
        recorder.resolve(
            number,
            of_report(error),
            offset if is_known else None,
            None if error is None else error.name(),
            now,
        )


def _misplaced(reports: Reports, recorder: SendRecorder) -> NDArray[np.bool_]:
    """Return which records were acknowledged in another partition than they were sent to.

    The log names the first of them.
    """
    sent_to = recorder.partitions_of(reports.numbers)
    misplaced: NDArray[np.bool_] = (
        (reports.errors == 0) & (sent_to >= 0) & (reports.partitions != sent_to)
    )
    if misplaced.any():
        place = int(np.argmax(misplaced))
        _log.error(
            "%d records were acknowledged in another partition than they were sent to: the first, "
            "record %d, was sent to partition %d, and acknowledged in partition %d at offset %d",
            np.count_nonzero(misplaced),
            reports.numbers[place],
            sent_to[place],
            reports.partitions[place],
            reports.offsets[place],
        )
    return misplaced


# --- the producer ---------------------------------------------------------------------------------

POLL_SECONDS_MIN = 0.002
"""The shortest wait, in seconds: tokens of this long are sent in one go, and librdkafka polls in
whole milliseconds."""
POLL_SECONDS_MAX = 0.1
PURGE_SECONDS = 2.0
"""How long purged records may take to be reported, in seconds."""


class CellProducer:
    """A producer that sends and records until it is told to stop.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    def __init__(self, spec: ProducerSpec, recorder: SendRecorder) -> None:
        properties = producer_properties(spec)
        share = max(1, int(properties["queue.buffering.max.messages"]) // spec.partitions)
        self._spec = spec
        self._properties = properties
        self._session = 0
        self._keys = keys_of(spec.keys, spec.partitions, spec.producer_config.get(PARTITIONER))
        self._route = np.arange(spec.partitions) if self._keys is None else self._keys.partitions
        self._recorder = recorder
        self._flush_seconds = int(properties["message.timeout.ms"]) / 1000
        self._fatal: str | None = None
        self._client = self._new_client(spec.producer)
        self._turns = ProducerTurns(spec, recorder, share, time.monotonic, route=self._route)

    def run(self, stopping: Callable[[], bool], keep: Keep) -> None:
        """Send until ``stopping``, then wait for the outcomes.

        This calls ``keep(now)`` several times a second, for flushing and progress. It raises
        ClientFailed after a fatal client error that no other session repairs, once everything is
        recorded.
        """
        self._send_until(stopping, keep)
        while self._fatal is not None:
            self._begin_session(self._fatal)
            self._send_until(stopping, keep)

    def close(self) -> None:
        """Close the client library; this is idempotent."""
        self._client.close()

    def _send_until(self, stopping: Callable[[], bool], keep: Keep) -> None:
        """Run one session, until ``stopping`` or a fatal error, and all that it sent has an
        outcome."""
        while not stopping() and self._fatal is None:
            self._send()
            keep(time.monotonic())
            self._serve(self._seconds_to_next())
        self._finish(keep)

    def _begin_session(self, fatal: str) -> None:
        self._session += 1
        mends = fatal == NO_BROKERS or _idempotent(self._properties)
        if not mends or self._session >= SESSIONS_MAX:
            raise ClientFailed(f"the producer failed for good: {fatal}")
        number = session_number(self._spec.producer, self._session)
        _log.warning("a fatal error, it goes on as producer %d: %s", number, fatal)
        self._recorder.begin_session(number, fatal)
        self._client.close()
        self._client = self._new_client(number)
        self._fatal = None

    def _send(self) -> None:
        turns, late_s = self._turns.take()
        if not len(turns):
            return
        keys = None if self._keys is None else turns
        sequences = self._recorder.invoke(self._route[turns], late_s, keys)
        numbers = np.arange(sequences.start, sequences.stop)
        for sequence, code in self._client.produce(numbers, turns).items():
            error = KafkaError(code)
            self._recorder.resolve(sequence, of_refusal(error), error=error.name())

    def _seconds_to_next(self) -> float:
        wait = min(self._turns.seconds_to_next(), POLL_SECONDS_MAX)
        return wait if self._spec.rate is None else max(wait, POLL_SECONDS_MIN)

    def _finish(self, keep: Keep) -> None:
        # After a fatal error nothing is sent any more, and hardly anything answered.
        self._await_reports(self._flush_seconds if self._fatal is None else 0.0, keep)
        self._client.purge()
        self._await_reports(PURGE_SECONDS, keep)
        self._recorder.abandon(TIMED_OUT)

    def _await_reports(self, seconds: float, keep: Keep) -> None:
        deadline = time.monotonic() + seconds
        while self._recorder.unresolved and time.monotonic() < deadline:
            self._client.flush()
            self._serve(POLL_SECONDS_MAX)
            keep(time.monotonic())

    def _serve(self, seconds: float) -> None:
        """Let the client library report what there is."""
        self._client.serve(seconds)
        self._fatal = self._fatal or self._client.fatal
        if self._brokers.none_left:
            self._fatal = self._fatal or NO_BROKERS

    def _reported(self, reports: Reports) -> None:
        record_reports(reports, self._recorder, self._spec.acks != "0", time.time_ns())

    def _new_client(self, number: int) -> BatchProducer:
        self._brokers = KnownBrokers()
        return BatchProducer(
            self._spec.topic,
            {**self._properties, **self._brokers.properties},
            encoder(self._spec, number),
            self._keys,
            self._reported,
            self._brokers.on_statistics,
        )


def _idempotent(properties: Config) -> bool:
    """Return whether the producer is idempotent: librdkafka reads both ``true`` and ``1``."""
    return str(properties.get("enable.idempotence", False)).lower() in ("true", "1")


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Produce as the specification file says, until ``stopping``."""
    spec = load(ProducerSpec, specification)
    with ExitStack() as at_the_end, recording(spec) as (recorder, keep):
        producer = CellProducer(spec, recorder)
        # The client is closed after the history. Whatever happens to the library's threads while
        # they end, and to this process with them, nothing that was recorded is lost.
        at_the_end.callback(producer.close)
        producer.run(stopping, keep)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
