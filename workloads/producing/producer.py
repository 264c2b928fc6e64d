"""The producer of one cell, or of several that share it.

``python -m ackproof.workloads.producing.producer SPEC.json``

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
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.history.names import SendType
from ackproof.history.sessions import NO_BROKERS, SESSIONS_MAX, session_number
from ackproof.workloads.configuration import PARTITIONER, producer_properties
from ackproof.workloads.known_brokers import KnownBrokers
from ackproof.workloads.librdkafka.client import BatchProducer
from ackproof.workloads.librdkafka.keys import Keys, keys_of
from ackproof.workloads.librdkafka.messages import Reports, of_topic
from ackproof.workloads.outcomes import TIMED_OUT, of_refusal, of_report
from ackproof.workloads.process import ClientFailed, main
from ackproof.workloads.producing.pacing import ProducerTurns, TombstoneDraw
from ackproof.workloads.producing.recorder import (
    Keep,
    SendRecorder,
    encoder,
    recording,
    tombstone_encoder,
)
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


@dataclass(slots=True)
class _Sends:
    """The sends of a producer to one of its topics.

    Attributes:
        keys: Its keys, if it has any.
        route: The partition of each turn: of each key, or each partition.
        turns: What is due.
        tombstones: What chooses the tombstones.
    """

    spec: ProducerSpec
    recorder: SendRecorder
    keys: Keys | None
    route: NDArray[np.int64]
    turns: ProducerTurns
    tombstones: TombstoneDraw


class CellProducer:
    """A producer that sends and records until it is told to stop.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    def __init__(self, spec: ProducerSpec, recorders: Sequence[SendRecorder]) -> None:
        properties = producer_properties(spec)
        each = spec.of_each_topic
        most = int(properties["queue.buffering.max.messages"])
        share = max(1, most // sum(one.partitions for one in each))
        self._spec = spec
        self._properties = properties
        self._session = 0
        self._flush_seconds = int(properties["message.timeout.ms"]) / 1000
        self._fatal: str | None = None
        self._sends = [
            _sends_to(one, recorder, share) for one, recorder in zip(each, recorders, strict=True)
        ]
        self._begin(spec.producer)

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
        for one in self._sends:
            one.recorder.begin_session(number, fatal)
        self._client.close()
        self._begin(number)
        self._fatal = None

    def _send(self) -> None:
        for one, sender in zip(self._sends, self._senders, strict=True):
            turns, late_s = one.turns.take()
            if not len(turns):
                continue
            keys = None if one.keys is None else turns
            tombstones = one.tombstones.take(len(turns))
            sequences = one.recorder.invoke(one.route[turns], late_s, keys, tombstones)
            numbers = np.arange(sequences.start, sequences.stop)
            for sequence, code in sender.produce(numbers, turns, tombstones).items():
                error = KafkaError(code)
                one.recorder.resolve(sequence, of_refusal(error), error=error.name())

    def _seconds_to_next(self) -> float:
        wait = min(*(one.turns.seconds_to_next() for one in self._sends), POLL_SECONDS_MAX)
        return wait if self._spec.rate is None else max(wait, POLL_SECONDS_MIN)

    def _finish(self, keep: Keep) -> None:
        # After a fatal error nothing is sent any more, and hardly anything answered.
        self._await_reports(self._flush_seconds if self._fatal is None else 0.0, keep)
        self._client.purge()
        self._await_reports(PURGE_SECONDS, keep)
        for one in self._sends:
            one.recorder.abandon(TIMED_OUT)

    def _await_reports(self, seconds: float, keep: Keep) -> None:
        deadline = time.monotonic() + seconds
        while any(one.recorder.unresolved for one in self._sends) and time.monotonic() < deadline:
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
        now, acknowledged = time.time_ns(), self._spec.acks != "0"
        for place, one in enumerate(self._sends):
            record_reports(
                of_topic(reports, place, len(self._sends)), one.recorder, acknowledged, now
            )

    def _begin(self, number: int) -> None:
        """Make the client of a session, which sends under that number."""
        self._brokers = KnownBrokers()
        self._client = BatchProducer(
            {**self._properties, **self._brokers.properties},
            self._reported,
            self._brokers.on_statistics,
        )
        self._senders = [
            self._client.sender(
                one.spec.topic,
                encoder(one.spec, number),
                one.keys,
                place,
                len(self._sends),
                tombstone_encoder(one.spec, number),
            )
            for place, one in enumerate(self._sends)
        ]


def _sends_to(spec: ProducerSpec, recorder: SendRecorder, share: int) -> _Sends:
    keys = keys_of(spec.keys, spec.partitions, spec.producer_config.get(PARTITIONER))
    route = np.arange(spec.partitions) if keys is None else keys.partitions
    turns = ProducerTurns(spec, recorder, share, time.monotonic, route=route)
    return _Sends(spec, recorder, keys, route, turns, TombstoneDraw(spec))


def _idempotent(properties: Config) -> bool:
    """Return whether the producer is idempotent: librdkafka reads both ``true`` and ``1``."""
    return str(properties.get("enable.idempotence", False)).lower() in ("true", "1")


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Produce as the specification file says, until ``stopping``."""
    spec = load(ProducerSpec, specification)
    with ExitStack() as at_the_end, recording(spec) as (recorders, keep):
        producer = CellProducer(spec, recorders)
        # The client is closed after the history. Whatever happens to the library's threads while
        # they end, and to this process with them, nothing that was recorded is lost.
        at_the_end.callback(producer.close)
        producer.run(stopping, keep)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
