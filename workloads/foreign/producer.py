"""The producer of one cell, or of several, whose client is a program under test.

``python -m ackproof.workloads.foreign.producer SPEC.json``

It does for the program what :mod:`workloads.producing.producer` does for librdkafka. It draws the
records, in the same pace and the same turns, and records each one. It records an ``invoke`` when a
line is handed over, and the outcome when the program's line is read. So the same code records all
clients.

The turn of a partition is skipped as there, and so is every turn while the program does not take
what it was told. Nothing is handed over then, so there is nothing to record. The records have no
keys, because the protocol has no word for them.

A program that breaks the rules ends itself and us, with the reason in the log and everything
recorded until then. It must not end by itself (then we end with its status, 128 and its number for
a signal). It must not say what is no line of the protocol. It must not report a record twice, or
one that it was never given. Records without an outcome are then ``info``.
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from ackproof.history.names import SendType
from ackproof.workloads.foreign.program import READY_S, ProgramFailed, RunningProgram, greeting
from ackproof.workloads.foreign.properties import delivery_timeout_ms, producer_properties
from ackproof.workloads.foreign.protocol import (
    Acked,
    Done,
    Failed,
    Fatal,
    Flush,
    Flushed,
    Ready,
    Refused,
    Saying,
    Undone,
    encode_command,
    send_line,
)
from ackproof.workloads.outcomes import TIMED_OUT, of_program_refusal
from ackproof.workloads.process import main
from ackproof.workloads.producing.pacing import ProducerTurns
from ackproof.workloads.producing.recorder import Keep, SendRecorder, encoder, recording
from ackproof.workloads.spec import ForeignProducerSpec, ProducerSpec, load

WAITING_MAX = 100_000
"""The most records without an outcome: librdkafka's ``queue.buffering.max.messages``."""
ENDED = "_PROGRAM_ENDED"
"""The error of what had no outcome when the program ended, or was ended."""

_WAIT_S_MIN = 0.002
"""The shortest wait, in seconds: tokens of this long are sent in one go."""
_WAIT_S_MAX = 0.1


@dataclass(slots=True)
class _Sends:
    """The sends of a producer to one of its topics.

    Attributes:
        topic: Its name for the program; empty if there is only one.
        values: Returns the values of records by their sequence numbers.
        turns: What is due; None before the first is sent.
    """

    spec: ProducerSpec
    topic: str
    recorder: SendRecorder
    values: Callable[[Iterable[int]], Iterable[bytes]]
    turns: ProducerTurns | None = None


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
        self._acknowledged = spec.acks != "0"
        self._keep = keep
        self._flush_s = delivery_timeout_ms(spec.producer_config) / 1000
        self._ready = self._flushed = False
        each = spec.of_each_topic
        self._sends = [
            _Sends(one, one.topic if len(each) > 1 else "", recorder, encoder(one).encode_all)
            for one, recorder in zip(each, recorders, strict=True)
        ]
        first = _greeting(spec)
        self._program = RunningProgram(spec.program)
        self._program.tell(first)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Send until ``stopping``, then wait for the outcomes.

        Raise ProgramFailed when the program breaks a rule, once everything is recorded.
        """
        try:
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
            one.turns = ProducerTurns(
                one.spec, one.recorder, share, time.monotonic, lambda: self._program.busy
            )
        while not stopping():
            if lines := b"".join(map(self._lines, range(len(self._sends)))):
                self._program.tell(lines)
            wait = min(one.turns.seconds_to_next() for one in self._sends if one.turns)
            self._hear(min(max(wait, _WAIT_S_MIN), _WAIT_S_MAX))

    def _lines(self, place: int) -> bytes:
        """Return the lines of the records that are due of the topic at that place."""
        one, many = self._sends[place], len(self._sends)
        assert one.turns is not None
        partitions, late_s = one.turns.take()
        sequences = one.recorder.invoke(partitions, late_s)
        numbers = (sequence * many + place for sequence in sequences)
        values = one.values(sequences)
        return b"".join(map(send_line, numbers, partitions.tolist(), values, repeat(one.topic)))

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
            case Acked(number, offset):
                self._resolve(number, SendType.OK, offset if self._acknowledged else None, None)
            case Refused(number, error):
                self._resolve(number, of_program_refusal(self._library, error), None, error)
            case Failed(number, error):
                self._resolve(number, SendType.INFO, None, error)
            case Ready():
                self._ready = True
            case Flushed():
                self._flushed = True
            case Done() | Undone():
                raise ProgramFailed("the program answered without a question")
            case Fatal(reason):
                raise ProgramFailed(f"the program cannot go on: {reason}")

    def _resolve(
        self, number: int, outcome: SendType, offset: int | None, error: str | None
    ) -> None:
        sequence, place = divmod(number, len(self._sends))
        recorder = self._sends[place].recorder
        if not recorder.is_waiting(sequence):
            raise ProgramFailed(
                f"the program reported record {number}, which has no pending outcome"
            )
        recorder.resolve(sequence, outcome, offset=offset, error=error)


def _greeting(spec: ForeignProducerSpec) -> bytes:
    properties = {
        "bootstrap.servers": spec.bootstrap_servers,
        "client.id": spec.client,
        "acks": spec.acks,
        **producer_properties(spec.library, spec.producer_config),
    }
    topics = [one.topic for one in spec.of_each_topic]
    return greeting(topics, properties, spec.library)


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Produce as the specification file says, until ``stopping``."""
    spec = load(ForeignProducerSpec, specification)
    with recording(spec) as (recorders, keep):
        ForeignProducer(spec, recorders, keep).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
