"""The producer of one cell, or of several, whose client is a program under test.

``python -m ackproof.workloads.foreign.producer SPEC.json``

It does for the program what :mod:`workloads.producing.producer` does for librdkafka. It draws the
records, in the same pace and the same turns, and records each one. It records an ``invoke`` when a
line is handed over, and the outcome when the program's line is read. So the same code records all
clients.

The turn of a partition is skipped as there, and so is every turn while the program does not take
what it was told. Nothing is handed over then, so there is nothing to record.

A program that breaks the rules ends itself and us, with the reason in the log and everything
recorded until then. It must not end by itself (then we end with its status, 128 and its number for
a signal). It must not say what is no line of the protocol. It must not report a record twice, or
one that it was never given. Records without an outcome are then ``info``.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np

from ackproof.history.names import SendType
from ackproof.workloads.configuration import PARTITIONER
from ackproof.workloads.foreign.program import (
    READY_S,
    ProgramFailed,
    RunningProgram,
    check_version,
    greeted,
    greeting,
)
from ackproof.workloads.foreign.properties import delivery_timeout_ms, producer_properties
from ackproof.workloads.foreign.protocol import (
    KEYED_VERSION,
    VERSION,
    Acked,
    Done,
    Failed,
    Fatal,
    Flush,
    Flushed,
    Ready,
    Refused,
    Saying,
    SendKeyed,
    SendTombstone,
    Undone,
    encode_command,
    send_line,
)
from ackproof.workloads.librdkafka.keys import Keys, keys_of
from ackproof.workloads.librdkafka.library import UNASSIGNED
from ackproof.workloads.outcomes import TIMED_OUT, of_program_refusal
from ackproof.workloads.process import main
from ackproof.workloads.producing.pacing import ProducerTurns, TombstoneDraw
from ackproof.workloads.producing.recorder import (
    Keep,
    SendRecorder,
    encoder,
    recording,
    tombstone_encoder,
)
from ackproof.workloads.spec import ForeignProducerSpec, ProducerSpec, load

WAITING_MAX = 100_000
"""The most records without an outcome: librdkafka's ``queue.buffering.max.messages``."""
ENDED = "_PROGRAM_ENDED"
"""The error of what had no outcome when the program ended, or was ended."""

_WAIT_S_MIN = 0.002
"""The shortest wait, in seconds: tokens of this long are sent in one go."""
_WAIT_S_MAX = 0.1

_log = logging.getLogger(__name__)


class _Sends:
    """The sends of a producer to one of its topics.

    Args:
        topic: The name of the topic for the program; empty if there is only one.

    Attributes:
        turns: What is due; None before the first is sent.
    """

    def __init__(self, spec: ProducerSpec, topic: str, recorder: SendRecorder) -> None:
        self.spec = spec
        self.recorder = recorder
        self.turns: ProducerTurns | None = None
        self._topic = topic
        self._encoder = encoder(spec)
        self._keys = _keys(spec)
        self._tombstones = TombstoneDraw(spec)
        self._identities = tombstone_encoder(spec, spec.producer)
        self._chosen = PARTITIONER in spec.producer_config

    def begin(self, share: int, busy: Callable[[], bool]) -> None:
        """Begin the schedule, with room for ``share`` records of each partition under way."""
        route = None if self._keys is None else self._keys.partitions
        self.turns = ProducerTurns(
            self.spec, self.recorder, share, time.monotonic, busy, route=route
        )

    def lines(self, number: Callable[[int], int]) -> bytes:
        """Record the sends that are due, and return their lines.

        ``number`` returns the number of a record for the program by its sequence number.
        """
        assert self.turns is not None
        turns, late_s = self.turns.take()
        if self._keys is None:
            sequences = self.recorder.invoke(turns, late_s)
            values = self._encoder.encode_all(sequences)
            numbers = map(number, sequences)
            return b"".join(map(send_line, numbers, turns.tolist(), values, repeat(self._topic)))
        tombstones = self._tombstones.take(len(turns))
        sequences = self.recorder.invoke(self._keys.partitions[turns], late_s, turns, tombstones)
        deletes = repeat(False) if tombstones is None else tombstones.tolist()
        sends = map(self._keyed, map(number, sequences), sequences, turns.tolist(), deletes)
        return b"".join(map(encode_command, sends))

    def _keyed(
        self, number: int, sequence: int, turn: int, deletes: bool
    ) -> SendKeyed | SendTombstone:
        assert self._keys is not None
        to = int(self._keys.destinations[turn])
        at = number, None if to == UNASSIGNED else to, self._keys.text(turn)
        if not deletes:
            return SendKeyed(*at, self._encoder.encode(sequence), self._topic)
        assert self._identities is not None
        return SendTombstone(*at, self._identities.encode(sequence), self._topic)

    def acked(self, sequence: int, offset: int | None, partition: int | None) -> None:
        """Record an ack; ``partition`` is the one that the program names, if any.

        A record that was acknowledged in another partition than it was sent to has no offset in its
        own (``workloads.producing.producer``).
        """
        if partition is not None:
            sent_to = int(self.recorder.partitions_of(np.array([sequence]))[0])
            if partition != sent_to:
                said = "record %d was sent to partition %d, and acknowledged in partition %d"
                _log.error(said, sequence, sent_to, partition)
                offset = None
        elif self._chosen and offset is not None:
            raise ProgramFailed(
                f"the program reported an ack of record {sequence} without the partition that its "
                "library chose"
            )
        self.recorder.resolve(sequence, SendType.OK, offset=offset)


class ForeignProducer:
    """A producer that lets a program send, and records, until it is told to stop.

    The program numbers the records of all topics in one row: of ``n`` topics, record ``s`` of topic
    ``k`` has number ``s * n + k``.

    The constructor raises SpecificationError for what the protocol cannot say, and ProgramFailed
    where the program cannot be started.
    """

    def __init__(
        self, spec: ForeignProducerSpec, recorders: Sequence[SendRecorder], keep: Keep
    ) -> None:
        self._library = spec.library
        self._version = VERSION if spec.keys is None else KEYED_VERSION
        self._acknowledged = spec.acks != "0"
        self._keep = keep
        self._flush_s = delivery_timeout_ms(spec.producer_config) / 1000
        self._ready = self._flushed = False
        each = spec.of_each_topic
        self._sends = [
            _Sends(one, one.topic if len(each) > 1 else "", recorder)
            for one, recorder in zip(each, recorders, strict=True)
        ]
        first = _greeting(spec, self._version)
        self._program = RunningProgram(spec.program)
        self._program.tell(first)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Send until ``stopping``, then wait for the outcomes.

        Raise ProgramFailed when the program breaks a rule, once everything is recorded.
        """
        try:
            with greeted(self._library, self._version):
                self._await_ready(stopping)
            if self._ready:
                self._send_all(stopping)
                self._finish()
                self._program.end()
        finally:
            self._abandon(ENDED)
            self._program.kill()

    def _await_ready(self, stopping: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not self._ready and not stopping():
            if time.monotonic() >= deadline:
                raise ProgramFailed(f"the program was not ready within {READY_S:g} s")
            self._hear(_WAIT_S_MAX)

    def _send_all(self, stopping: Callable[[], bool]) -> None:
        share = max(1, WAITING_MAX // sum(one.spec.partitions for one in self._sends))
        for one in self._sends:
            one.begin(share, lambda: self._program.busy)
        while not stopping():
            if lines := b"".join(map(self._lines, range(len(self._sends)))):
                self._program.tell(lines)
            wait = min(one.turns.seconds_to_next() for one in self._sends if one.turns)
            self._hear(min(max(wait, _WAIT_S_MIN), _WAIT_S_MAX))

    def _lines(self, place: int) -> bytes:
        """Return the lines of the records that are due of the topic at that place."""
        many = len(self._sends)
        return self._sends[place].lines(lambda sequence: sequence * many + place)

    def _finish(self) -> None:
        self._program.tell(encode_command(Flush()))
        deadline = time.monotonic() + self._flush_s
        while not self._flushed and time.monotonic() < deadline:
            self._hear(_WAIT_S_MAX)
        left = sum(one.recorder.unresolved for one in self._sends)
        if self._flushed and left:
            raise ProgramFailed(f"the program has flushed without a report of {left} records")
        self._abandon(TIMED_OUT)

    def _abandon(self, error: str) -> None:
        for one in self._sends:
            one.recorder.abandon(error)

    def _hear(self, seconds: float) -> None:
        for saying in self._program.hear(seconds):
            self._note(saying)
        self._keep(time.monotonic())

    def _note(self, saying: Saying) -> None:
        match saying:
            case Acked(number, offset, partition):
                sends, sequence = self._waiting(number)
                sends.acked(sequence, offset if self._acknowledged else None, partition)
            case Refused(number, error):
                sends, sequence = self._waiting(number)
                outcome = of_program_refusal(self._library, error)
                sends.recorder.resolve(sequence, outcome, error=error)
            case Failed(number, error):
                sends, sequence = self._waiting(number)
                sends.recorder.resolve(sequence, SendType.INFO, error=error)
            case Ready() as ready:
                check_version(ready, self._version)
                self._ready = True
            case Flushed():
                self._flushed = True
            case Done() | Undone():
                raise ProgramFailed("the program answered without a question")
            case Fatal(reason):
                raise ProgramFailed(f"the program cannot go on: {reason}")

    def _waiting(self, number: int) -> tuple[_Sends, int]:
        """Return to which sends a record belongs, by its number, and its sequence number there."""
        sequence, place = divmod(number, len(self._sends))
        if not self._sends[place].recorder.is_waiting(sequence):
            raise ProgramFailed(
                f"the program reported record {number}, which has no pending outcome"
            )
        return self._sends[place], sequence


def _keys(spec: ProducerSpec) -> Keys | None:
    return keys_of(spec.keys, spec.partitions, spec.producer_config.get(PARTITIONER))


def _greeting(spec: ForeignProducerSpec, version: int) -> bytes:
    properties = {
        "bootstrap.servers": spec.bootstrap_servers,
        "client.id": spec.client,
        "acks": spec.acks,
        **producer_properties(spec.library, spec.producer_config),
    }
    topics = [one.topic for one in spec.of_each_topic]
    return greeting(topics, properties, spec.library, version=version)


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Produce as the specification file says, until ``stopping``."""
    spec = load(ForeignProducerSpec, specification)
    with recording(spec) as (recorders, keep):
        ForeignProducer(spec, recorders, keep).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
