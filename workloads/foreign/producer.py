"""The producer of one cell whose client is a program under test.

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
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
from ackproof.workloads.spec import ForeignProducerSpec, load

WAITING_MAX = 100_000
"""The most records without an outcome: librdkafka's ``queue.buffering.max.messages``."""
ENDED = "_PROGRAM_ENDED"
"""The error of what had no outcome when the program ended, or was ended."""

_WAIT_S_MIN = 0.002
"""The shortest wait, in seconds: tokens of this long are sent in one go."""
_WAIT_S_MAX = 0.1


class ForeignProducer:
    """A producer that lets a program send, and records, until it is told to stop.

    The constructor raises SpecificationError for what the protocol cannot say, and ProgramFailed
    where the program cannot be started.
    """

    def __init__(self, spec: ForeignProducerSpec, recorder: SendRecorder, keep: Keep) -> None:
        self._spec = spec
        self._library = spec.library
        self._acknowledged = spec.acks != "0"
        self._values = encoder(spec).encode_all
        self._recorder = recorder
        self._keep = keep
        self._flush_s = delivery_timeout_ms(spec.producer_config) / 1000
        self._ready = self._flushed = False
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
            self._recorder.abandon(ENDED)
            self._program.kill()

    def _await_ready(self, stopping: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not self._ready and not stopping():
            if time.monotonic() >= deadline:
                raise ProgramFailed(f"the program was not ready within {READY_S:g} s")
            self._hear(_WAIT_S_MAX)

    def _send_all(self, stopping: Callable[[], bool]) -> None:
        share = max(1, WAITING_MAX // self._spec.partitions)
        turns = ProducerTurns(
            self._spec, self._recorder, share, time.monotonic, lambda: self._program.busy
        )
        while not stopping():
            if lines := self._lines(*turns.take()):
                self._program.tell(lines)
            self._hear(min(max(turns.seconds_to_next(), _WAIT_S_MIN), _WAIT_S_MAX))

    def _lines(self, partitions: NDArray[np.int64], late_s: NDArray[np.float64] | None) -> bytes:
        sequences = self._recorder.invoke(partitions, late_s)
        return b"".join(map(send_line, sequences, partitions.tolist(), self._values(sequences)))

    def _finish(self) -> None:
        self._program.tell(encode_command(Flush()))
        deadline = time.monotonic() + self._flush_s
        while not self._flushed and time.monotonic() < deadline:
            self._hear(_WAIT_S_MAX)
        if self._flushed and (left := self._recorder.unresolved):
            raise ProgramFailed(f"the program has flushed without a report of {left} records")
        self._recorder.abandon(TIMED_OUT)

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
        if not self._recorder.is_waiting(number):
            raise ProgramFailed(
                f"the program reported record {number}, which has no pending outcome"
            )
        self._recorder.resolve(number, outcome, offset=offset, error=error)


def _greeting(spec: ForeignProducerSpec) -> bytes:
    properties = {
        "bootstrap.servers": spec.bootstrap_servers,
        "client.id": spec.client,
        "acks": spec.acks,
        **producer_properties(spec.library, spec.producer_config),
    }
    return greeting(spec.topic, properties, spec.library)


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Produce as the specification file says, until ``stopping``."""
    spec = load(ForeignProducerSpec, specification)
    with recording(spec) as (recorder, keep):
        ForeignProducer(spec, recorder, keep).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
