"""The checker divergent-replicas: rows of anomalies from the copies of one partition."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ackproof.checkers.raw_logs.segments import RawLog
from ackproof.checkers.replicas.comparison import Difference, Kind, differences
from ackproof.checkers.rules.rows import ROWS
from ackproof.history.storage import AnyPath

DIVERGENT = "divergent-replicas"
"""This checker, which is no rule: its input is not the history."""

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """A range of offsets at which the logs of two brokers, ``one`` and ``other``, differ."""

    one: int
    other: int
    difference: Difference


@dataclass(slots=True, kw_only=True)
class Divergence:
    """The copies of one partition, each compared with the first.

    Attributes:
        brokers: Whose the copies are, the leader first where its is among them.
        directories: Where each is.
        end: Up to where (exclusive) they are to be the same.
        deleted_before: The offset below which records were deleted by order.
        untold: What of them could not be compared, a sentence each; grows with :meth:`partings`.
        compared: How many offsets were compared, pair by pair; likewise.
    """

    cell: str
    topic: str
    partition: int
    brokers: Sequence[int]
    directories: Sequence[AnyPath]
    end: int
    deleted_before: int = 0
    untold: list[str] = field(default_factory=list)
    compared: int = 0

    def partings(self) -> Iterator[list[Parting]]:
        """Where copies differ from the first, some at a time.

        Raises:
            OtherFormat: A log is not of message format v2.
            OSError: A file cannot be read.
        """
        some: list[Parting] = []
        for parting in self._partings():
            some.append(parting)
            if len(some) == _ROWS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some

    def rows(self, partings: Sequence[Parting]) -> pa.Table:
        """A row of :data:`checkers.rules.rows.ROWS` for each."""
        return pa.Table.from_pylist(list(map(self._row, partings)), schema=ROWS)

    def _partings(self) -> Iterator[Parting]:
        logs = list(zip(self.brokers, self.directories, strict=True))
        for broker, directory in logs[1:]:
            first, one = logs[0][0], RawLog(logs[0][1])
            other = RawLog(directory)
            start = self._start({first: one.start, broker: other.start})
            for difference in differences(one, other, start, self.end):
                yield Parting(one=first, other=broker, difference=difference)
            reached = max(start, min(max(one.reached, other.reached), self.end))
            self.compared += reached - start
            if reached < self.end and not one.damage and not other.damage:
                words = f"the logs of broker-{first} and broker-{broker} end at offset {reached}"
                self.untold.append(f"replicas not compared up to offset {self.end}: {words}")
            told = {f"broker-{first}": one.damage, f"broker-{broker}": other.damage}
            self.untold += [f"the log of {who} {what}" for who in told for what in told[who]]

    def _start(self, starts: Mapping[int, int | None]) -> int:
        """Where both logs have begun; that one of them begins later is told, for what it lacks may
        have been deleted as it should, or not."""
        known = [start for start in starts.values() if start is not None]
        if len(known) < len(starts):
            self.untold.append(f"replicas not compared: {_starts(starts)}")
            return self.end
        # What was to be deleted, one that was copied anew never had.
        if len(set(known)) > 1 and max(known) > self.deleted_before:
            words = f"replicas not compared below offset {max(known)}: {_starts(starts)}"
            self.untold.append(words)
        return max(known)

    def _row(self, parting: Parting) -> dict[str, Any]:
        difference, whose = parting.difference, parting.difference.identity
        return {
            "cell": self.cell,
            "anomaly": DIVERGENT,
            "topic": self.topic,
            "partition": self.partition,
            "offset": difference.first,
            "producer": None if whose is None else whose.producer,
            "sequence": None if whose is None else whose.sequence,
            "detail": _detail(difference, f"broker-{parting.one}", f"broker-{parting.other}"),
        }


def _starts(starts: Mapping[int, int | None]) -> str:
    return ", ".join(
        f"the log of broker-{broker} has no segment"
        if start is None
        else f"the log of broker-{broker} starts at {start}"
        for broker, start in starts.items()
    )


def _detail(difference: Difference, one: str, other: str) -> str:
    first, last = difference.first, difference.last
    where = f"offset {first}" if first == last else f"offsets {first} to {last}"
    if difference.kind is Kind.DIFFERS:
        holds = f"{one} holds {difference.one}, {other} {difference.other}"
        return f"differs: {one} and {other} at {where}; at {first} {holds}"
    if difference.one is None:
        return f"lacks: {one} has no {where}; at {first} {other} holds {difference.other}"
    return f"lacks: {other} has no {where}; at {first} {one} holds {difference.one}"
