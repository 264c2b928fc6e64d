"""What a cluster owes beside the records: to serve again, and that no server ends by itself.

Safety alone is kept by a cluster that answers nobody. Both guarantees are for every configuration,
counted per cell by the partitions and servers that broke them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ackproof.checkers.context.endings import End
from ackproof.checkers.context.faults import FOREVER, FaultFacts, Partition
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS, Observation
from ackproof.checkers.context.pace import FULL, Pace
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedRun

Row = Mapping[str, Any]

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Living:
    """What became of a liveness guarantee in one cell.

    Attributes:
        broken: What broke it, a sentence each.
        untold: What is missing to say that it held, a sentence each.
        suspended: Why it is not promised, a sentence each.
        looked: Whether anybody could look; where nobody could, nothing is missing.
        examined: How many partitions or servers were looked at.
    """

    broken: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()
    looked: bool = True
    examined: int = 0


def resting_on(living: Living, tables: Iterable[str], incomplete: Collection[str]) -> Living:
    """Return what became of a guarantee, as far as that is known without tables that are not whole:
    what is missing of them may excuse what broke it, or break it."""
    torn = tuple(f"the table {one} is not whole" for one in tables if one in incomplete)
    return replace(living, broken=(), untold=torn) if torn else living


def recovers(
    run: PlannedRun,
    cell: Cell,
    faults: Iterable[FaultFacts],
    rows: Sequence[Row],
    observation: Observation,
    silent: Iterable[Partition] = (),
    servers: Sequence[Row] = (),
    pace: Pace = FULL,
) -> Living:
    """Judge whether every partition of a cell was led, with a full ISR, within ``recovery_ms``
    after the last heal.

    What metadata say is not enough to say that it did: a partition that has acknowledged nothing
    since then was not seen to serve.

    Args:
        rows: Of the table ``recovery``.
        silent: The partitions that acknowledged nothing after the last fault on them was healed.
        servers: Rows of the table ``servers``.
        pace: Servers that had to wait for a processor have as much more time.

    A fault of which nothing is left is over, whatever the system made of that: a broker that was
    killed, runs again and never registers is no excuse for a partition that waits for it.
    """
    faults = tuple(faults)
    if open_ := tuple(_unhealed(run, cell, faults)):
        return Living(suspended=open_)
    healed = max((fault.over for fault in faults if fault.over < FOREVER), default=None)
    due = FOREVER if healed is None else pace.after(healed, run.recovery_ms * _NS_PER_MS)
    by_partition = {(row["topic"], row["partition"]): row for row in rows}
    broken: list[str] = []
    untold = [f"{topic}-{n}: nothing was acknowledged after the last heal" for topic, n in silent]
    for partition in cell.topic_partitions:
        name = f"{partition[0]}-{partition[1]}"
        row = by_partition.get(partition)
        if row is None:
            untold.append(f"{name}: nobody looked whether it recovered")
        elif healed is not None and row["time"] < healed:
            untold.append(f"{name}: nobody looked whether it recovered after the last heal")
        elif (
            not row["whole"]
            and row["time"] + OBSERVATION_LAG_NS < due < FOREVER
            and not _all_ended(servers)
        ):
            # Ctrl-C half a second after the heal: it had no time to recover yet. Brokers that have
            # all ended have no use for more time.
            untold.append(f"{name}: not whole when last looked at, before its time was up")
        elif not row["whole"]:
            broken.append(f"{name} {_state(row)}")
        elif (late := _late(cell, partition, row, due, observation)) is not None:
            (broken if late else untold).append(f"{name}: {late or 'seen whole, too late to tell'}")
    examined = sum(partition in by_partition for partition in cell.topic_partitions)
    return Living(broken=tuple(broken), untold=tuple(untold), examined=examined)


def stays_up(
    cell: Cell,
    ends: Sequence[End],
    rows: Sequence[Row],
    recovery: Sequence[Row],
    observation: Observation,
) -> Living:
    """Judge whether no server that a cell rests on ended by itself.

    A broker's end concerns the cells that have replicas on it, which are those that were seen in
    an ISR or leading; any other server's end (ZooKeeper's) concerns all.

    Args:
        ends: Those that no fault accounts for, or perhaps none.
        rows: Of the table ``servers``.
    """
    started = sum(row["event"] == "started" for row in rows)
    if not started:
        return Living(untold=("nobody watched the servers' processes",))
    hosts = _hosts(cell, recovery, observation)
    broken: list[str] = []
    untold: list[str] = []
    for end in ends:
        kind, _, number = end.server.rpartition("-")
        if kind != "broker" or not number.isdecimal() or int(number) in hosts:
            (untold if end.doubt else broken).append(end.words)
        elif len(hosts) < cell.replication_factor:
            untold.append(f"{end.words}; whether it held a replica of this cell was not seen")
    return Living(broken=tuple(broken), untold=tuple(untold), examined=started)


def _unhealed(run: PlannedRun, cell: Cell, faults: Iterable[FaultFacts]) -> Iterator[str]:
    """Faults that may still be on a cell's partitions, a sentence each."""
    told = {fault.fault_id for fault in faults}
    for plan in run.faults:
        if plan.fault_id not in told:
            yield f"nothing is known of {plan.fault}#{plan.fault_id}"
    for fault in faults:
        if fault.over == FOREVER and any(map(fault.touches, cell.topic_partitions)):
            yield f"{fault.label} is not proven healed"


def _late(
    cell: Cell, partition: Partition, row: Row, due: int, observation: Observation
) -> str | None:
    """None where it was whole in time, else in words how late; empty where nobody knows.

    The look itself may be late: it comes after whatever the steps in between took. What was seen
    of the partition says when it became whole.
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
    return f"whole only {late // _NS_PER_MS:,} ms after its time was up" if late > 0 else None


def _all_ended(servers: Iterable[Row]) -> bool:
    """Return whether every broker whose process was watched has ended, and none was started
    again."""
    last = {row["server"]: row["event"] for row in sorted(servers, key=lambda row: row["time"])}
    brokers = [event for server, event in last.items() if server.startswith("broker-")]
    return bool(brokers) and all(event == "ended" for event in brokers)


def _hosts(cell: Cell, recovery: Sequence[Row], observation: Observation) -> set[int]:
    partitions = set(cell.topic_partitions)
    hosts = {broker for partition in partitions for broker in observation.of(partition).brokers}
    for row in recovery:
        if (row["topic"], row["partition"]) in partitions:
            hosts |= {broker for broker in (row["leader"], *row["isr"]) if broker is not None}
    return hosts - {-1}


def _state(row: Row) -> str:
    return "has no leader" if row["leader"] < 0 else f"has the ISR {list(row['isr'])}"
