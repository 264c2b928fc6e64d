"""A member of a consumer group whose client is a program under test.

``python -m ackproof.workloads.foreign.member SPEC.json``

It does for the program what :mod:`workloads.consuming.group_member` does for librdkafka, by the
same rules, and records the same tables with the same code. The program does one thing at a time: it
is told to poll, to commit or to look, and answers before the next. A rebalance is reported from the
callback in which the library reports it. The program stays in it until it is told to proceed, and
does meanwhile what it is told: that is how offsets are committed before partitions are given up.

Each commit waits for its answer. No library but librdkafka reports what it commits by itself, so
there is no ``auto-commit``.

A program that breaks a rule, or does not answer within :data:`ANSWER_S`, ends with its client. The
reason is in the log, and everything that was recorded until then counts.
"""

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ackproof.history.names import SendType
from ackproof.workloads.consuming.consumption import ConsumptionRecorder
from ackproof.workloads.consuming.group_member import ASK_AGAIN_S, FETCH_S, LOOK_S
from ackproof.workloads.consuming.polling import CatchUp, Keep, Positions, recording
from ackproof.workloads.foreign.program import (
    READY_S,
    ProgramFailed,
    RunningProgram,
    check_version,
    greeted,
    greeting,
)
from ackproof.workloads.foreign.properties import consumer_properties
from ackproof.workloads.foreign.protocol import (
    KEYED_VERSION,
    VERSION,
    AskEnd,
    Assigned,
    Close,
    CommitOffsets,
    Committed,
    Done,
    End,
    EndOfPoll,
    Fatal,
    Lost,
    Offset,
    Poll,
    Polled,
    Proceed,
    Ready,
    Record,
    Remedy,
    Revoked,
    Saying,
    Seek,
    Subscribe,
    Tombstone,
    Undone,
    encode_command,
    is_answer,
)
from ackproof.workloads.interface import Delivery
from ackproof.workloads.polled import NO_EPOCH, Records
from ackproof.workloads.process import main
from ackproof.workloads.spec import ForeignMemberSpec, load

ANSWER_S = 120.0
"""The time limit of an answer, in seconds. Calls of the library may wait for a rebalance or a
coordinator meanwhile."""

_HEAR_S = 0.1
"""The longest time between two calls of ``keep``, in seconds."""
_ANSWERS = (Ready, EndOfPoll, Done, Undone)

_log = logging.getLogger(__name__)


class ForeignMember:
    """A member that lets a program read and commit, and records, until it is told to stop.

    The constructor raises SpecificationError for what the protocol cannot say, and ProgramFailed
    where the program cannot be started.
    """

    def __init__(self, spec: ForeignMemberSpec, recorder: ConsumptionRecorder, keep: Keep) -> None:
        self._delivery = spec.delivery
        self._library = spec.library
        self._version = KEYED_VERSION if spec.tombstones else VERSION
        self._recorder = recorder
        self._keep = keep
        self._positions = Positions()
        self._settled = False
        self._look_due = time.monotonic()
        self._said: deque[Saying] = deque()
        properties, version = _properties(spec), self._version
        first = greeting([spec.topic], properties, spec.library, Subscribe(), version=version)
        self._program = RunningProgram(spec.program)
        self._program.tell(first)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Read until ``stopping``, then to the end, and leave the group.

        Raise ProgramFailed when the program breaks a rule, once everything is recorded.
        """
        try:
            with greeted(self._library, self._version):
                self._await_ready()
            while not stopping():
                self._turn()
            catch_up = CatchUp(self._bounds, self._positions)
            while not catch_up.done(self._settled and not self._positions.uncommitted()):
                self._turn()
            self._ask(Close())
            self._program.end()
        finally:
            self._program.kill()

    def _await_ready(self) -> None:
        ready = self._await_answer(READY_S)[-1]
        if not isinstance(ready, Ready):
            raise ProgramFailed("the program answered subscribe by another word")
        check_version(ready, self._version)

    def _turn(self) -> None:
        records = [one for one in self._ask(Poll()) if isinstance(one, Record | Tombstone)]
        shown = _records(records, time.time_ns())
        self._recorder.shown(shown)
        self._positions.shown(shown.last(0, len(shown)))
        self._look()
        self._commit()
        self._keep()

    def _look(self) -> None:
        """Ask what is committed, if it is time to, before a commit hides what was forgotten."""
        now = time.monotonic()
        if self._settled and now >= self._look_due:
            self._look_due = now + LOOK_S
            asked = self._recorder.now()
            self._recorder.looked(asked, self._committed(sorted(self._positions.partitions)))

    def _commit(self) -> None:
        """Commit what was shown, and wait for the answer.

        An error leaves the outcome unknown, whatever it is: it is that of the last attempt.
        """
        due = self._positions.uncommitted()
        if not due:
            return
        number = self._recorder.commit(due)
        answer = self._ask(CommitOffsets(due))[-1]
        error = answer.error if isinstance(answer, Undone) else None
        outcome = SendType.OK if error is None else SendType.INFO
        for partition, offset in sorted(due.items()):
            self._recorder.answered(number, outcome, partition, offset, error)
            if error is None:
                self._positions.committed(partition, offset)
        if isinstance(answer, Undone) and answer.remedy is Remedy.FATAL:
            raise ProgramFailed(f"the consumer failed for good: {error}")

    def _committed(self, partitions: Sequence[int]) -> Mapping[int, int | None]:
        """Return what is committed of these partitions; None stands for nothing. The result is
        empty if that is not known."""
        if not partitions:
            return {}
        *offsets, answer = self._ask(Committed(tuple(partitions)))
        if isinstance(answer, Undone):
            _log.warning("what is committed is not known: %s", answer.error)
            return {}
        return {one.partition: one.offset for one in offsets if isinstance(one, Offset)}

    def _bounds(self, partition: int) -> tuple[int, int] | None:
        """Return log start (always 0 here) and end of a partition, or None without an answer."""
        for one in self._ask(AskEnd(partition)):
            if isinstance(one, End):
                # Markers of transactions are behind the last record, and no record.
                self._positions.ended(partition, one.position)
                return 0, one.end
        return None

    # --- rebalances ---

    def _assigned(self, partitions: Sequence[int]) -> None:
        fetched = self._fetch(partitions)
        self._recorder.fetched(fetched)
        for partition in partitions:
            self._positions.begin(partition, fetched.get(partition))
        self._recorder.assigned({one: fetched.get(one) for one in partitions})
        for partition, offset in fetched.items():
            if offset is not None:
                self._ask(Seek(partition, offset))
        self._settled = True

    def _fetch(self, partitions: Sequence[int]) -> Mapping[int, int | None]:
        """Return what is committed, asked for again for :data:`FETCH_S` while it is not known."""
        deadline = time.monotonic() + FETCH_S
        while not (found := self._committed(partitions)) and partitions:
            if time.monotonic() >= deadline:
                break
            self._keep()
            time.sleep(ASK_AGAIN_S)
        return found

    def _revoked(self, partitions: Sequence[int]) -> None:
        if self._delivery is Delivery.AT_LEAST_ONCE:
            self._commit()
        self._take_away(partitions, self._recorder.revoked)

    def _lost(self, partitions: Sequence[int]) -> None:
        self._take_away(partitions, self._recorder.lost)

    def _take_away(
        self, partitions: Sequence[int], record: Callable[[Sequence[int]], None]
    ) -> None:
        self._positions.forget(partitions)
        self._settled = False
        record(partitions)

    # --- questions and answers ---

    def _ask(
        self, command: Poll | Close | CommitOffsets | Committed | Seek | AskEnd
    ) -> list[Saying]:
        """Tell the program one thing, and return what it says, of which the last is its answer.

        Rebalances that it reports meanwhile are answered.
        """
        self._program.tell(encode_command(command))
        said = self._await_answer(ANSWER_S)
        if not is_answer(said[-1], command):
            raise ProgramFailed(f"the program answered {type(command).__name__} by another word")
        return said

    def _await_answer(self, seconds: float) -> list[Saying]:
        deadline = time.monotonic() + seconds
        said: list[Saying] = []
        while not (said and isinstance(said[-1], _ANSWERS)):
            if time.monotonic() >= deadline:
                raise ProgramFailed(f"the program did not answer within {seconds:g} s")
            match self._next():
                case None:
                    self._keep()
                case Fatal(reason):
                    raise ProgramFailed(f"the program cannot go on: {reason}")
                case Assigned() | Revoked() | Lost() as rebalance:
                    self._rebalance(rebalance)
                case saying:
                    said.append(saying)
        return said

    def _rebalance(self, reported: Assigned | Revoked | Lost) -> None:
        handle = {Assigned: self._assigned, Revoked: self._revoked, Lost: self._lost}
        handle[type(reported)](reported.partitions)
        self._program.tell(encode_command(Proceed()))

    def _next(self) -> Saying | None:
        if not self._said:
            self._said.extend(self._program.hear(_HEAR_S))
        return self._said.popleft() if self._said else None


def _properties(spec: ForeignMemberSpec) -> Mapping[str, str]:
    instance = {} if spec.instance is None else {"group.instance.id": spec.instance}
    return {**consumer_properties(spec, spec.group), **instance}


def _records(records: Sequence[Polled], now: int) -> Records:
    """Return records that were shown at ``now``, in nanoseconds of the Unix epoch."""
    epochs = [NO_EPOCH if one.epoch is None else one.epoch for one in records]
    return Records(
        np.array([one.partition for one in records], np.int32),
        np.array([one.offset for one in records], np.int64),
        np.array(epochs, np.int32),
        np.full(len(records), now, np.int64),
        [one.identity if isinstance(one, Tombstone) else one.value for one in records],
    )


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Read in the group as the specification file says, until ``stopping``."""
    spec = load(ForeignMemberSpec, specification)
    with recording(spec) as (recorder, keep):
        ForeignMember(spec, recorder, keep).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
