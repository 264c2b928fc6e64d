"""The document of a time axis: everything that the page draws of a run, small enough for it.

Times are seconds since the start of the axis. A value that the history does not have is None,
which the page shows as not observed, and never as an empty row or a 0.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ackproof.harness.report.axis.bins import Pairs

Curve = Sequence[float | None]
"""A value for each bin, or None for a bin without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Percentiles of the acknowledged sends of each bin, in milliseconds: of the time from when a
    record was due (or sent, without a schedule) until its ack. A bin is that of the ack."""

    p50: Curve
    p99: Curve
    p999: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTraffic:
    """The sends of a cell.

    Attributes:
        name: The cell's name.
        title: Its name for readers.
        acked: The acknowledged sends of each bin.
        failed: The sends that certainly failed, by bin.
        unknown: The sends with an unknown outcome, by bin.
        latency: The latencies of the acknowledged sends.
        whole: Whether all its lost and duplicated records are known.
        lost: The lost records, by the bin of their ack; None if it is unknown what was lost.
        duplicated: The duplicated records, by the bin of their ack, or of their send without one.
    """

    name: str
    title: str
    acked: Sequence[int]
    failed: Pairs
    unknown: Pairs
    latency: Latencies
    whole: bool
    lost: Pairs | None
    duplicated: Pairs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStop:
    """The time in which a fault had stopped a server. ``until`` is None if it was not started
    again."""

    server: str
    since: float
    until: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A fault from its injection to its proven heal.

    Attributes:
        anchor: The id of its row on the page.
        until: Its end; None if its heal was never proven.
        lane: The row of bands in which it overlaps no other, from 0.
        proven: Whether its effect was proven.
        stops: The servers that it stopped one after the other; empty if there are fewer than two.
    """

    anchor: str
    label: str
    servers: str
    since: float
    until: float | None
    lane: int
    proven: bool
    stops: Sequence[ServerStop] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpan:
    """The state of a partition from ``since`` until the next one.

    Attributes:
        leader: The broker that leads; -1 for none; None if it was not observed.
        epoch: The leader epoch; None if it was not observed.
        isr: The in-sync replicas; None if they were not observed.
        needed: ``min.insync.replicas`` in force.
        changes: The number of changes in it. A long run has only the smallest ISR of each bin.
    """

    since: float
    leader: int | None
    epoch: int | None
    isr: Sequence[int] | None
    needed: int
    changes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition.

    Attributes:
        spans: Its states; None if it was never observed.
        lost: The records that are known to be lost, by the bin of their ack.
        duplicated: The records that are known to be duplicated, by the bin of their ack.
        rank: Its place in the order of events: 0 for the partition with most.
    """

    cell: str
    name: str
    spans: Sequence[PartitionSpan] | None
    lost: Pairs
    duplicated: Pairs
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpan:
    """A state in words, from ``since`` until the next one; ``well`` if it is the usual one."""

    since: float
    words: str
    well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """A part of the cluster over time, such as the controller or the session of a broker. ``spans``
    is None if it was not observed."""

    name: str
    spans: Sequence[StateSpan] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An event at a moment, in words."""

    at: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCurves:
    """A consumer group or a tail reader of a cell.

    Attributes:
        lag: The records between its position and the end of the log at the end of each bin. The
            position of a group is what it has committed. None if that was not observed.
        undelivered: The acknowledged records that it had not read by the end of each bin, or None.
        why: Why something was not observed.
        marks: The changes of its members' partitions; None for a tail reader.
    """

    cell: str
    name: str
    lag: Sequence[int] | None
    undelivered: Sequence[int] | None
    why: str
    marks: Sequence[Mark] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The time axis of a run.

    Attributes:
        start_ms: The start of the axis, in milliseconds of the Unix epoch.
        bin_s: The width of a bin.
        bins: The number of bins.
        latency: The latencies of all cells together.
        partitions: The partitions with most events.
        partitions_left: The number of further partitions.
        unobserved: Times in which nothing of the cluster was observed.
        cluster: The controller, and the brokers' sessions.
        readers: The consumers.
        readers_damage: Why the consumers cannot be read; empty if they can.
    """

    start_ms: int
    bin_s: float
    bins: int
    faults: Sequence[Band]
    cells: Sequence[CellTraffic]
    latency: Latencies
    partitions: Sequence[PartitionRow]
    partitions_left: int
    unobserved: Sequence[tuple[float, float]]
    cluster: Sequence[StateRow]
    readers: Sequence[ReaderCurves]
    readers_damage: str

    def to_json(self) -> str:
        """Return the document as JSON that is safe inside ``<script>``: no text in it can end the
        element or begin a comment."""
        document = asdict(self)
        for row in document["partitions"]:
            # Without the names of the fields, the many spans take a third of the space.
            row["spans"] = row["spans"] and [[*span.values()] for span in row["spans"]]
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text
