"""The restart of a final read whose process librdkafka has ended."""

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ackproof.history import reader
from ackproof.history.names import PARTITIONED, FileStem, parse
from ackproof.history.schema import READS, TABLES
from ackproof.history.writer import TableWriter
from ackproof.workloads.interface import Client
from ackproof.workloads.process import ClientFailed
from ackproof.workloads.spec import FINAL_READ, FinalReadSpec, TopicSpec

# --- progress -------------------------------------------------------------------------------------
#
# The progress of the final read of one partition, with what is wrong in what it read.
#
# Complete means: from the log start to the end, without an error. The end is where the broker said
# that there is no more (``enable.partition.eof``). It must be at or behind the high watermark asked
# for at the beginning, so that a high watermark that lagged then does not hide records.
#
# An offset that was passed over is a hole. It is reported, and the read still counts as complete,
# because there is nothing left to read there.


NOTES_MAX = 8
"""How many errors, and how many holes, are named; the rest is counted."""


@dataclass(slots=True, kw_only=True)
class ReadBackPartition:
    """The state of one partition; offsets as Kafka counts them, ends exclusive.

    Attributes:
        position: The next offset expected.
        holes: Ranges of offsets passed over.
    """

    topic: str
    partition: int
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    read_end_offset: int | None = None
    position: int = 0
    records: int = 0
    done: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def begin(self, log_start_offset: int, log_end_offset: int) -> None:
        """Note the bounds."""
        self.log_start_offset = self.position = log_start_offset
        self.log_end_offset = log_end_offset

    def record(self, offset: int) -> None:
        """Note a record."""
        if offset < self.position:
            self.errors.append(f"offset {offset} came when {self.position} was due")
        self._pass_over(offset)
        self.position = offset + 1
        self.records += 1

    def end(self, offset: int) -> None:
        """Note that the broker has nothing at ``offset`` and behind it."""
        assert self.log_end_offset is not None
        if offset < self.log_end_offset:
            return
        self._pass_over(offset)
        self.read_end_offset = offset
        self.done = True

    def row(self, unfinished: str) -> tuple[object, ...]:
        """Return the row of ``reads``; ``unfinished`` says why, if it is not done."""
        errors = list(self.errors)
        if not self.done:
            errors.append(f"{unfinished} at offset {self._where()}")
        complete = self.done and not errors
        notes = [*_some(errors), *_some([f"hole [{a}, {b})" for a, b in self.holes])]
        return (
            self.topic,
            self.partition,
            self.log_start_offset,
            self.log_end_offset,
            self.read_end_offset,
            self.records,
            complete,
            "; ".join(notes) or None,
        )

    def _pass_over(self, offset: int) -> None:
        if offset > self.position:
            self.holes.append((self.position, offset))
            self.position = offset

    def _where(self) -> str:
        if self.log_end_offset is None:
            return "unknown (no bounds)"
        return f"{self.position} of {self.log_end_offset}"


def _some(notes: list[str]) -> list[str]:
    more = len(notes) - NOTES_MAX
    return notes if more <= 0 else [*notes[:NOTES_MAX], f"and {more} more"]


# --- restart --------------------------------------------------------------------------------------


# --- crashes of the reader ------------------------------------------------------------------------

_SIGNALS = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV})
"""The signals that end a process without being sent to it."""


def crashed(status: int | None) -> str | None:
    """Return why a process with this exit status crashed, or None where librdkafka has not ended
    it.

    The status is negative for a signal.
    """
    if status is None or -status not in _SIGNALS:
        return None
    return f"librdkafka ended its process: {signal.Signals(-status).name}"


def apart(reader: Client, left_s: float) -> Client:
    """Return the client that reads the same within so many seconds, in a process for each topic.

    It has a log of its own, because the other one holds what librdkafka said last.
    """
    specification = {**reader.specification, "deadline_s": left_s, "apart": True}
    return replace(reader, name=f"{reader.name}-apart", specification=specification)


# --- one process for each topic or partition ------------------------------------------------------
#
# A broker that serves what is no batch ends librdkafka 2.16: half a page of it was written, so its
# header is right, and its records are zeros. librdkafka loses its place behind a wrong CRC
# (``check.crcs``) and asserts (``rd_slice_narrow_copy``). It does not say whose batch it was, and
# no partition is known to be read to its end by then. The rest of that reading is removed, and all
# is read once more: the rows of a partition come from one reading. Only a partition that ends every
# process is incomplete.
#
# The processes write under the one name that the manifest has for the final read, because ``log``
# has a file for each partition. What is in one file for all of them (``reads``, ``closings``) is
# gathered here, and written when all is read.

_LEAST_S = 0.1
_LOOK_S = 0.1

_CLOSINGS = "closings"
_OF_READS = frozenset(table for table, schema in TABLES.items() if schema == READS)
"""The tables with a row for every partition."""

_S = TypeVar("_S", bound=FinalReadSpec)
Partition = tuple[str, int]
Row = Mapping[str, Any]


def run(
    spec: _S,
    tables: Sequence[str],
    together: Callable[[_S, float, Callable[[], bool]], None],
    stopping: Callable[[], bool],
) -> None:
    """Read as the specification says, until its deadline or ``stopping``: by ``together``, or
    apart.

    Raise as that does, or as :meth:`SeparateReader.run`.
    """
    deadline = time.monotonic() + spec.deadline_s
    if spec.apart:
        SeparateReader(spec, tables, deadline, stopping).run()
    else:
        together(spec, deadline, stopping)


class TopicReading(NamedTuple):
    """The topic that one process reads; ``again`` says that it was read before, and had too little
    time."""

    topic: TopicSpec
    again: bool = False

    @property
    def partitions(self) -> Sequence[Partition]:
        return [(self.topic.topic, number) for number in self.topic.numbers]

    def after_crash(self) -> Sequence["TopicReading"]:
        """Return what is left to be read after librdkafka has ended this one's process.

        Of several partitions, each is left for a process of its own. Of one, nothing is left.
        """
        if len(self.topic.numbers) == 1:
            return ()
        alone = [self.topic.model_copy(update={"only": number}) for number in self.topic.numbers]
        return [TopicReading(one) for one in alone]


class SeparateReader:
    """A reader of the topics of a specification into its history.

    Args:
        tables: The tables that their reader writes.
        deadline: The time limit of all of it, by ``time.monotonic``.
    """

    def __init__(
        self,
        spec: FinalReadSpec,
        tables: Sequence[str],
        deadline: float,
        stopping: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._by_partition = [table for table in tables if table in PARTITIONED]
        self._small = [table for table in tables if table not in PARTITIONED]
        self._deadline = deadline
        self._stopping = stopping
        self._rows: dict[tuple[str, Partition], Row] = {}
        """The row of each partition, by table; for ``closings``, by the table that was closed."""
        self._ended: dict[Partition, str] = {}
        """How the last process of a partition ended, where librdkafka ended it."""

    def run(self) -> None:
        """Read until all is read, the deadline has passed or ``stopping``; then write the shared
        files.

        Raise ClientFailed where a reader fails by itself.
        """
        self._forget(self._spec.asked)
        # All topics come first: those that crash nothing are complete before the time is over.
        waiting = deque(map(TopicReading, self._spec.topics))
        while waiting and not self._stopping() and (left := self._left()) > 0:
            one = waiting.popleft()
            self._forget(one.partitions)
            # Otherwise one without a leader, which is never read to its end, leaves the others no
            # time.
            waiting += self._read(one, left / (1 + len(waiting)), last=not waiting)
        self._write("stopped" if self._stopping() else f"{self._spec.deadline_s:g} s had passed")

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _read(self, one: TopicReading, seconds: float, *, last: bool) -> Sequence[TopicReading]:
        """Read a topic, and return what is left to be read of it."""
        status = self._process(one, seconds)
        if (why := crashed(status)) is not None:
            self._forget(one.partitions)
            self._ended |= dict.fromkeys(one.partitions, why)
            return one.after_crash()
        # Told to stop before it listens, or at its very end, when Python listens no more, it ends
        # by the signal. It has then written nothing, or all.
        was_asked = self._stopping() and status == -signal.SIGTERM
        if status != 0 and not was_asked:
            raise ClientFailed(f"the reader of {one.topic.topic} ended with status {status}")
        self._take()
        if one.again or last or all(map(self._got_to_the_end, one.partitions)):
            return ()
        return [one._replace(again=True)]

    def _process(self, one: TopicReading, seconds: float) -> int:
        """Run our own command with only that to read, and return its exit status.

        Its input may hold passwords, so it is in no file.
        """
        deadline_s = max(_LEAST_S, round(seconds, 1))
        changes = {"topics": (one.topic,), "deadline_s": deadline_s, "apart": False}
        document = self._spec.model_copy(update=changes).model_dump_json().encode()
        argv = [*sys.orig_argv[:-1], "/dev/stdin"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(document)
                process.stdin.close()
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
                if self._stopping():
                    process.terminate()
            return process.returncode

    def _got_to_the_end(self, partition: Partition) -> bool:
        rows = [self._rows.get((table, partition)) for table in self._small if table in _OF_READS]
        return all(row is not None and row["read_end_offset"] is not None for row in rows)

    def _forget(self, partitions: Container[Partition]) -> None:
        """Remove what a process has left that read these partitions, and no others since the last
        :meth:`_take`."""
        for path, stem in self._files():
            if stem.partition is None or stem.partition in partitions:
                path.unlink()
        for known in [known for known in self._rows if known[1] in partitions]:
            del self._rows[known]

    def _take(self) -> None:
        """Gather what a process has written that is not in a file of a partition."""
        for path, stem in self._files():
            if stem.partition is not None:
                continue
            for row in reader.read_files(stem.table, [path]).to_pylist():
                if stem.table != _CLOSINGS or row["table"] in PARTITIONED:
                    table = row["table"] if stem.table == _CLOSINGS else stem.table
                    self._rows[table, (row["topic"], row["partition"])] = row
            path.unlink()

    def _files(self) -> Sequence[tuple[Path, FileStem]]:
        """Return the files of the final read in the history."""
        names = {FINAL_READ, *(f"{table}-{FINAL_READ}" for table in TABLES)}
        found = []
        for path in self._spec.history.glob("[!.]*.*"):
            with suppress(ValueError):  # its name does not show its writer
                found.append((path, parse(path.name)[0]))
        return [(path, stem) for path, stem in found if stem.writer in names]

    def _write(self, unfinished: str) -> None:
        history, asked = self._spec.history, sorted(self._spec.asked)
        for table in self._small:
            with closing(TableWriter(history, table, FINAL_READ)) as writer:
                for partition in asked:
                    if (row := self._rows.get((table, partition))) is not None:
                        writer.append(tuple(row.values()))
                    elif table in _OF_READS:
                        read = ReadBackPartition(topic=partition[0], partition=partition[1])
                        writer.append(read.row(self._ended.get(partition, unfinished)))
        with closing(TableWriter(history, _CLOSINGS, FINAL_READ, closing=False)) as writer:
            for table in self._by_partition:
                for partition in asked:
                    row = self._rows.get((table, partition), {"rows": 0, "digest": None})
                    writer.append((table, FINAL_READ, *partition, row["rows"], row["digest"]))
