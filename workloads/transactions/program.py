"""A program under test as the client of a session: docs/client-protocol.md, "Transactions".

Each session has a program of its own, which is killed when the session is over: a library that is
asked to close may abort what is open. What a program may not do ends its client, with whatever was
recorded: see :mod:`workloads.foreign.producer`.
"""

import time
from contextlib import suppress

from ackproof.history.schema import SendType
from ackproof.workloads.foreign.outcomes import of_refusal
from ackproof.workloads.foreign.program import READY_S, Program, ProgramFailed, greeting
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
from ackproof.workloads.producing.outcomes import TIMED_OUT
from ackproof.workloads.transactions.client import CallFailed, Report
from ackproof.workloads.transactions.spec import TransactionalSpec, program_properties

ANSWER_S = 10.0
"""How much longer than it was told a call may take, before its program counts as one that hangs."""


class ProgramClient:
    """See :class:`workloads.transactions.client.TransactionalClient`; whatever listens to the
    program raises ProgramFailed when that does what it may not.

    Raises (constructor) SpecificationError for what cannot be said to a program, ProgramFailed
    where it cannot be started.
    """

    def __init__(self, spec: TransactionalSpec, seconds: float, report: Report) -> None:
        """``seconds``: how long each call is to wait for its answer."""
        self._library = spec.library
        self._report = report
        self.ready = False
        self._untold: set[int] = set()
        self._asked = False
        self._answer: Done | Undone | None = None
        first = _greeting(spec, seconds)
        self._ready_by = time.monotonic() + READY_S
        self._program = Program(spec.program)
        self._program.tell(first)

    @property
    def waiting(self) -> int:
        return len(self._untold)

    def init(self, seconds: float) -> None:
        self._call(Init(), seconds)

    def begin(self) -> None:
        self._call(Begin(), 0.0)

    def send(self, sequence: int, partition: int, value: bytes) -> None:
        self._untold.add(sequence)
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
                self._told(number, SendType.OK, offset, None)
            case Refused(number, error):
                self._told(number, of_refusal(self._library, error), None, error)
            case Failed(number, error):
                self._told(number, SendType.INFO, None, error)
            case Done() | Undone():
                if not self._asked:
                    raise ProgramFailed("the program answered what nobody had asked")
                self._answer, self._asked = saying, False
            case Ready():
                self.ready = True
            case Flushed():
                raise ProgramFailed("the program has flushed, and nobody had asked")
            case Fatal(reason):
                raise ProgramFailed(f"the program cannot go on: {reason}")

    def _told(self, number: int, outcome: SendType, offset: int | None, error: str | None) -> None:
        if number not in self._untold:
            raise ProgramFailed(f"the program told of record {number}, which waits for no outcome")
        self._untold.remove(number)
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
