"""The timeline of a run, read from its history: acks per second, faults, leader changes, and the
other events at which acknowledged data can be lost.

Truncations are in the brokers' own logs, without a time that is comparable with others. A follower
truncates what a new leader does not have, so the time is that at which the leader epoch was first
observed. Truncations of an epoch that was not observed have no time and are left out.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, codes_of
from ackproof.checkers.context import broker_logs
from ackproof.checkers.context.faults import UNCLEANLY, label_of, title_of
from ackproof.checkers.context.partition_guarantees import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ackproof.checkers.index import columns
from ackproof.history import reader
from ackproof.history.manifest import UNORDERED, PlannedFault
from ackproof.history.names import SendType
from ackproof.history.schema import LOST_WITH_POD, RESTARTED_BY
from ackproof.history.storage import AnyPath, digest, matching
from ackproof.history.transactional import SESSIONS_MAX, TransactionEvent

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpan:
    """A fault from injection to proven heal.

    Attributes:
        start, end: Nanoseconds of the Unix epoch: the time at which its injection began, as for the
            checkers, and that of its proven heal. A rolling fault is injected broker by broker and
            ends with its injection. ``end`` is None if the heal was never proven.
        injected: Whether its injection ended without an error. An injection that failed may have
            had a part of its effect.
        proven: Whether the effect was proven; None if it was not verified.
        took_from: The partitions, as ``t-0``, of which it destroyed data; None if they are unknown.
        part: Its role in a story; None for a fault by itself.
        title: The name that its campaign gives it; empty without one.
        nodes: The nodes of Kubernetes that it struck, on which the servers were.
    """

    fault_id: int
    fault: str
    target: str
    servers: tuple[str, ...]
    start: int
    end: int | None
    injected: bool
    proven: bool | None
    evidence: Mapping[str, Any]
    healing: Mapping[str, Any]
    took_from: frozenset[str] | None = frozenset()
    part: "StoryPart | None" = None
    title: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return its name and number, such as ``kill#1`` or ``command:az-outage#1``."""
        return label_of(self.fault, self.fault_id, self.title)

    @property
    def lost_storage(self) -> object:
        """Return the storage that was lost with the pods of brokers, in words, by broker, or None
        if none was."""
        return self.evidence.get(LOST_WITH_POD)

    @property
    def restarter(self) -> object:
        """Return what had a broker restarted that the campaign did not, in words, by broker, or
        None for a fault of the campaign."""
        if self.fault != UNORDERED:
            return None
        return self.healing.get(RESTARTED_BY) or "it did not return, and it is unknown by what"

    def takes_from(self, topic: str) -> bool:
        """Return whether it destroyed data of the topic, or may have."""
        if self.took_from is None:
            return True
        return any(one.rpartition("-")[0] == topic for one in self.took_from)


def fault_anchor(run: int, fault_id: int) -> str:
    """Return the id of a fault's row on a page: ``fault-3``, or ``fault-3-run-2`` in a later
    run."""
    return f"fault-{fault_id}" if run == 1 else f"fault-{fault_id}-run-{run}"


def place_in_words(time: int | None, faults: Sequence[FaultSpan]) -> str:
    """Return where a time lies among the faults of its run: the faults that were active, or else
    the last one that was healed before it and the next one that began after it. The text is empty
    if the time is unknown, or if the run had no fault."""
    if time is None or not faults:
        return ""
    active = [one.label for one in faults if one.start <= time and not _is_over(one, time)]
    if active:
        return f"while {' and '.join(active)} {'was' if len(active) == 1 else 'were'} active"
    ended = [(one.end, one.label) for one in faults if one.end is not None and one.end <= time]
    next_ = [(one.start, one.label) for one in faults if one.start > time]
    places = [
        f"{(time - end) / NS_PER_S:.1f} s after the heal of {label}"
        for end, label in sorted(ended)[-1:]
    ]
    places += [
        f"{(start - time) / NS_PER_S:.1f} s before {label}" for start, label in sorted(next_)[:1]
    ]
    return ", ".join(places)


def _is_over(fault: FaultSpan, time: int) -> bool:
    return fault.end is not None and fault.end <= time


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPart:
    """A step of a story: ``story`` is such as ``crash-loop#1``, and ``step`` such as ``bounce-2``.
    ``partition`` is the partition of the story, such as ``t-0``, or None without one."""

    story: str
    step: str
    partition: str | None

    @property
    def title(self) -> str:
        """Return the story with its partition, such as ``crash-loop#1 on t-0``."""
        return self.story if self.partition is None else f"{self.story} on {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A change of a partition's leader, or its loss (``leader`` -1)."""

    time: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The events of a run over time.

    Attributes:
        acks: The acks by cell and second of the Unix epoch.
        commits: The seconds in which offsets of a topic, or transactions of a cell, were certainly
            committed, by the name of the topic or the cell.
        fencings: The times at which an instance of a transactional producer fenced the one before,
            by cell.
        truncations: The times of truncations by topic, once for each replica; None if the brokers'
            logs are missing, or no leader epoch was observed.
    """

    acks: Mapping[str, Mapping[int, int]]
    faults: Sequence[FaultSpan] = field(default_factory=tuple)
    leader_changes: Sequence[LeaderChange] = field(default_factory=tuple)
    commits: Mapping[str, Collection[int]] = field(default_factory=dict)
    fencings: Mapping[str, Sequence[int]] = field(default_factory=dict)
    truncations: Mapping[str, Sequence[int]] | None = field(default_factory=dict)

    @property
    def coordinator_changes(self) -> Sequence[int]:
        """Return the times at which a partition with the state of coordinators changed its
        leader."""
        internal = OFFSETS_TOPIC, TRANSACTIONS_TOPIC
        return [one.time for one in self.leader_changes if one.topic in internal]

    @property
    def stories(self) -> Mapping[str, Sequence[FaultSpan]]:
        """Return the steps of each story, by its title."""
        found: dict[str, list[FaultSpan]] = {}
        for fault in self.faults:
            if fault.part is not None:
                found.setdefault(fault.part.title, []).append(fault)
        return found

    @property
    def span(self) -> tuple[int, int] | None:
        """Return the first and last second with an ack, or None without any."""
        seconds = [second for series in self.acks.values() for second in series]
        return (min(seconds), max(seconds)) if seconds else None


def read(history: AnyPath, planned: Iterable[PlannedFault] = ()) -> Timeline:
    """Return the timeline of one run. The history is read file by file, so that memory does not
    grow with it. ``planned`` are its faults, with their roles in stories."""
    cluster = reader.read(history, "cluster").to_pylist()
    transactions = reader.read(
        history, "transactions", ["type", "event", "cell", "producer", "time"]
    )
    return Timeline(
        acks=_acks(history),
        faults=faults(history, planned),
        leader_changes=_leader_changes(cluster),
        commits=_commits(reader.read(history, "commits", ["type", "topic", "time"]), transactions),
        fencings=_fencings(transactions),
        truncations=_truncations(history, cluster),
    )


def faults(history: AnyPath, planned: Iterable[PlannedFault] = ()) -> tuple[FaultSpan, ...]:
    """Return the faults of one run, even if other parts of its history are damaged. ``planned`` is
    as in :func:`read`."""
    plans = list(planned)
    parts = {fault.fault_id: _part(fault) for fault in plans}
    titles = {fault.fault_id: title_of(fault.fault, fault.parameters) for fault in plans}
    spans = _faults(reader.read(history, "faults").to_pylist(), parts)
    return tuple(replace(span, title=titles.get(span.fault_id, "")) for span in spans)


def _acks(history: AnyPath) -> dict[str, Counter[int]]:
    counted: dict[str, Counter[int]] = {}
    for file in reader.files(history, "sends"):
        rows = columns.read_file("sends", file, ["cell", "type", "time"])
        cells: dict[str, int] = {}
        kinds: dict[str, int] = {}
        cell_of, kind = codes_of(rows["cell"], cells), codes_of(rows["type"], kinds)
        acked = kind == kinds.get(SendType.OK, NONE)
        cell_of, times = cell_of[acked], rows["time"].to_numpy()[acked]
        for cell, number in cells.items():
            counter = counted.setdefault(cell, Counter())
            mine = times if len(cells) == 1 else times[cell_of == number]
            counter.update(_frequencies(mine // NS_PER_S))
    return {cell: counter for cell, counter in sorted(counted.items()) if counter}


def _frequencies(values: Array) -> dict[int, int]:
    """Return how often each value occurs. Values come in the order of time, so that most of them
    form a few runs of equal values."""
    first = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
    many = np.diff(first, append=len(values))
    found, places = np.unique(values[first], return_inverse=True)
    counts = np.bincount(places, weights=many, minlength=len(found)).astype(np.int64)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _part(planned: PlannedFault) -> StoryPart | None:
    if planned.story is None:
        return None
    story, _, step = planned.story.partition(" ")
    partition = None if planned.partition is None else "{}-{}".format(*planned.partition)
    return StoryPart(story=story, step=step, partition=partition)


def _faults(
    rows: Sequence[Mapping[str, Any]], parts: Mapping[int, StoryPart | None]
) -> tuple[FaultSpan, ...]:
    events: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        events.setdefault(row["fault_id"], {})[row["event"]] = row
    return tuple(
        _span(number, by_event, parts.get(number)) for number, by_event in sorted(events.items())
    )


def _span(
    fault_id: int, events: Mapping[str, Mapping[str, Any]], part: StoryPart | None
) -> FaultSpan:
    first = min(events.values(), key=lambda row: row["time"])
    told = [events.get(event, {}) for event in ("inject", "injected", "verified")]
    healed, verified = events.get("healed", {}), told[-1]
    servers = next((row["servers"] for row in events.values() if row["servers"]), ())
    return FaultSpan(
        fault_id=fault_id,
        fault=first["fault"],
        target=first["target"],
        servers=tuple(servers),
        start=events.get("inject", first)["time"],
        end=healed.get("time") if healed.get("proven") else None,
        injected="injected" in events,
        proven=verified.get("proven"),
        evidence={k: v for row in told for k, v in _object(row.get("evidence")).items()},
        healing=_object(healed.get("evidence")),
        took_from=_took_from(events.values()),
        part=part,
        nodes=_nodes(_object(first.get("facts")), servers),
    )


def _nodes(facts: Mapping[str, Any], servers: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes of Kubernetes on which servers were, if the target was resolved to nodes."""
    pods = facts.get("pods")
    places = [pods.get(server) for server in servers] if isinstance(pods, dict) else []
    return tuple(sorted({str(one.get("node")) for one in places if isinstance(one, dict)}))


def _took_from(events: Iterable[Mapping[str, Any]]) -> frozenset[str] | None:
    taking = [row for row in events if row["destroys"] not in (None, UNCLEANLY)]
    if not taking:
        return frozenset()
    told = [row["partitions"] for row in taking if row["partitions"] is not None]
    return frozenset().union(*told) if told else None


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {"": "unreadable"}
    return value if isinstance(value, dict) else {"": value}


def _leader_changes(rows: Sequence[Mapping[str, Any]]) -> tuple[LeaderChange, ...]:
    changes: list[LeaderChange] = []
    known: dict[tuple[str, int], int] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        if row["kind"] != "partition" or row["leader"] is None:
            continue
        place = row["topic"], row["partition"]
        if known.get(place, row["leader"]) != row["leader"]:
            changes.append(
                LeaderChange(
                    time=row["time"],
                    topic=row["topic"],
                    partition=row["partition"],
                    leader=row["leader"],
                    leader_epoch=row["leader_epoch"],
                )
            )
        known[place] = row["leader"]
    return tuple(changes)


# --- events of coordinators and replicas ----------------------------------------------------------


def _commits(offsets: pa.Table, transactions: pa.Table) -> dict[str, set[int]]:
    """Return the seconds with certain commits, by the topic of offsets or the cell of
    transactions."""
    found: dict[str, set[int]] = {}
    certain = offsets.filter(pc.equal(offsets["type"], SendType.OK.value))
    for name, rows in (
        ("topic", certain),
        ("cell", _answered(transactions, TransactionEvent.COMMIT)),
    ):
        seconds = pc.divide(rows["time"], NS_PER_S)
        places = pa.table({"name": rows[name], "second": seconds}).group_by(["name", "second"])
        for row in places.aggregate([]).to_pylist():
            found.setdefault(row["name"], set()).add(row["second"])
    return found


def _fencings(transactions: pa.Table) -> dict[str, list[int]]:
    """Return the times at which a later session of a client was initialized. This fences the
    session before."""
    found: dict[str, list[int]] = {}
    for row in _answered(transactions, TransactionEvent.INIT).to_pylist():
        if row["producer"] % SESSIONS_MAX:
            found.setdefault(row["cell"], []).append(row["time"])
    return found


def _answered(transactions: pa.Table, event: TransactionEvent) -> pa.Table:
    """Return the rows of an event that was certainly carried out. There may be millions of
    transactions."""
    of_event = pc.equal(transactions["event"], event.value)
    return transactions.filter(pc.and_(of_event, pc.equal(transactions["type"], SendType.OK.value)))


def _truncations(
    history: AnyPath, cluster: Sequence[Mapping[str, Any]]
) -> dict[str, list[int]] | None:
    logs = history.parent / "logs"
    if not matching(logs, "broker-*"):
        return None
    began: dict[tuple[str, int, int], int] = {}
    for row in cluster:
        if row["kind"] == "partition" and row["leader_epoch"] is not None:
            place = row["topic"], row["partition"], row["leader_epoch"]
            began[place] = min(row["time"], began.get(place, row["time"]))
    if not began:  # as with an external cluster without controllers
        return None
    found: dict[str, list[int]] = {}
    for (topic, partition), some in broker_logs.truncations_of(logs, _altered(history)).items():
        for one in some:
            time = began.get((topic, partition, one.leader_epoch))
            removes = one.log_end is None or one.offset < one.log_end
            if time is not None and removes:
                found.setdefault(topic, []).append(time)
    return found


def _altered(history: AnyPath) -> set[AnyPath]:
    """Return the logs of brokers that are not as they were collected. The check names them."""
    rows = reader.read(history, "collected").to_pylist()
    digests = {str(row["file"]): row["digest"] for row in rows}
    run = history.parent
    logs = [path for node in matching(run / "logs", "broker-*") for path in matching(node, "*.log")]
    return {
        path
        for path in logs
        if digests and digest(path) != digests.get(f"logs/{path.parent.name}/{path.name}")
    }
