"""Liveness guarantees: the cluster serves again after faults, and no server ends by itself.

A cluster that never answers keeps every safety guarantee. Both liveness guarantees hold for every
configuration. Violations are counted by cell, as partitions and servers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ackproof.checkers.context.endings import ServerEnd
from ackproof.checkers.context.faults import FOREVER, FaultFacts, Partition
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS, ClusterObservation
from ackproof.checkers.context.pace import FULL, ServerPace
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedRun

Row = Mapping[str, Any]

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessResult:
    """The result of a liveness guarantee in one cell.

    Attributes:
        broken: The violations, a sentence each.
        missing_evidence: The evidence that is missing to say that it held, a sentence each.
        suspended: The reasons why it does not apply, a sentence each.
        looked: Whether it could be examined. If not, nothing counts as missing.
        examined: The number of partitions or servers that were examined.
    """

    broken: tuple[str, ...] = ()
    missing_evidence: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()
    looked: bool = True
    examined: int = 0


def resting_on(
    living: LivenessResult, tables: Iterable[str], incomplete: Collection[str]
) -> LivenessResult:
    """Return the result of a guarantee, or an undecided one if a table that it depends on is
    incomplete. The missing rows may excuse a violation or contain one."""
    torn = tuple(f"the table {one} is incomplete" for one in tables if one in incomplete)
    return replace(living, broken=(), missing_evidence=torn) if torn else living


def recovers(
    run: PlannedRun,
    cell: Cell,
    faults: Iterable[FaultFacts],
    rows: Sequence[Row],
    observation: ClusterObservation,
    silent: Iterable[Partition] = (),
    servers: Sequence[Row] = (),
    pace: ServerPace = FULL,
) -> LivenessResult:
    """Judge whether every partition of a cell had a leader and a full ISR within ``recovery_ms``
    after the last heal.

    Metadata alone does not prove recovery. A partition that has acknowledged nothing since the last
    heal was not seen to serve.

    Args:
        run: The planned run.
        cell: The cell.
        faults: The faults of the run.
        rows: The rows of the table ``recovery``.
        observation: The observation of the partitions.
        silent: The partitions that acknowledged nothing after the last fault on them was healed.
        servers: The rows of the table ``servers``.
        pace: The pace of the servers. Servers that waited for a processor get as much more time.

    A fault of which nothing is left is over, whatever the system did in response. A broker that was
    killed, runs again and never registers is no excuse for a partition that waits for it.
    """
    faults = tuple(faults)
    if open_ := tuple(_unhealed(run, cell, faults)):
        return LivenessResult(suspended=open_)
    healed = max((fault.over for fault in faults if fault.over < FOREVER), default=None)
    due = FOREVER if healed is None else pace.after(healed, run.recovery_ms * _NS_PER_MS)
    by_partition = {(row["topic"], row["partition"]): row for row in rows}
    broken: list[str] = []
    missing_evidence = [
        f"{topic}-{n}: nothing was acknowledged after the last heal" for topic, n in silent
    ]
    for partition in cell.topic_partitions:
        name = f"{partition[0]}-{partition[1]}"
        row = by_partition.get(partition)
        if row is None:
            missing_evidence.append(f"{name}: its recovery was not checked")
        elif healed is not None and row["time"] < healed:
            missing_evidence.append(f"{name}: its recovery was not checked after the last heal")
        elif (
            not row["whole"]
            and row["time"] + OBSERVATION_LAG_NS < due < FOREVER
            and not _all_ended(servers)
        ):
            # If the user stops the run half a second after the heal, the partition had no time to
            # recover. More time would not help brokers that have all ended.
            missing_evidence.append(
                f"{name}: not recovered when it was last checked, but its time limit had not passed"
            )
        elif not row["whole"]:
            broken.append(f"{name} {_state(row)}")
        elif (late := _late(cell, partition, row, due, observation)) is not None:
            (broken if late else missing_evidence).append(
                f"{name}: {late or 'recovered, but it is not known whether in time'}"
            )
    examined = sum(partition in by_partition for partition in cell.topic_partitions)
    return LivenessResult(
        broken=tuple(broken), missing_evidence=tuple(missing_evidence), examined=examined
    )


def stays_up(
    cell: Cell,
    ends: Sequence[ServerEnd],
    rows: Sequence[Row],
    recovery: Sequence[Row],
    observation: ClusterObservation,
) -> LivenessResult:
    """Judge whether no server that a cell depends on ended by itself.

    The end of a broker concerns the cells that have replicas on it, as observed in ISRs and
    leaders. The end of any other server (ZooKeeper) concerns all cells.

    Args:
        cell: The cell.
        ends: The ends that no fault explains, or perhaps none.
        rows: The rows of the table ``servers``.
        recovery: The rows of the table ``recovery``.
        observation: The observation of the partitions.
    """
    started = sum(row["event"] == "started" for row in rows)
    if not started:
        return LivenessResult(missing_evidence=("the servers' processes were not observed",))
    hosts = _hosts(cell, recovery, observation)
    broken: list[str] = []
    missing_evidence: list[str] = []
    for end in ends:
        kind, _, number = end.server.rpartition("-")
        if kind != "broker" or not number.isdecimal() or int(number) in hosts:
            (missing_evidence if end.doubt else broken).append(end.words)
        elif len(hosts) < cell.replication_factor:
            missing_evidence.append(
                f"{end.words}; it was not observed whether it held a replica of this cell"
            )
    return LivenessResult(
        broken=tuple(broken), missing_evidence=tuple(missing_evidence), examined=started
    )


def _unhealed(run: PlannedRun, cell: Cell, faults: Iterable[FaultFacts]) -> Iterator[str]:
    """Yield a sentence for each fault that may still affect a cell's partitions."""
    told = {fault.fault_id for fault in faults}
    for plan in run.faults:
        if plan.fault_id not in told:
            yield f"no record of {plan.fault}#{plan.fault_id}"
    for fault in faults:
        if fault.over == FOREVER and any(map(fault.touches, cell.topic_partitions)):
            yield f"{fault.label} is not proven healed"


def _late(
    cell: Cell, partition: Partition, row: Row, due: int, observation: ClusterObservation
) -> str | None:
    """Return a sentence that says how late a partition recovered, None if it was in time, or an
    empty string if that is unknown.

    The look itself may be late, because it comes after other steps. The observation of the
    partition says when it recovered.
    """
    if row["time"] <= due:
        return None
    if not observation.whole:
        return ""
    since = None
    for state in observation.of(partition).states:
        whole = state.leader >= 0 and len(state.isr) >= cell.replication_factor
        if state.time <= row["time"]:
            since = (since or state.time) if whole else None
    if since is None:
        return ""
    late = since - due - OBSERVATION_LAG_NS
    return f"recovered {late // _NS_PER_MS:,} ms after its time limit" if late > 0 else None


def _all_ended(servers: Iterable[Row]) -> bool:
    """Return whether every broker whose process was watched has ended without a restart."""
    last = {row["server"]: row["event"] for row in sorted(servers, key=lambda row: row["time"])}
    brokers = [event for server, event in last.items() if server.startswith("broker-")]
    return bool(brokers) and all(event == "ended" for event in brokers)


def _hosts(cell: Cell, recovery: Sequence[Row], observation: ClusterObservation) -> set[int]:
    partitions = set(cell.topic_partitions)
    hosts = {broker for partition in partitions for broker in observation.of(partition).brokers}
    for row in recovery:
        if (row["topic"], row["partition"]) in partitions:
            hosts |= {broker for broker in (row["leader"], *row["isr"]) if broker is not None}
    return hosts - {-1}


def _state(row: Row) -> str:
    return "has no leader" if row["leader"] < 0 else f"has the ISR {list(row['isr'])}"
