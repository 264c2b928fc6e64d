"""What a run cost, beside what it kept: work for ZooKeeper, and failover times.

Nothing here makes a verdict. What is not there, or not whole, is None: unknown is not 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ackproof.checkers.metadata_cost import Failover, ZooKeeperWork
from ackproof.history.manifest import PlannedFailover, PlannedRun

Row = Mapping[str, Any]

_NS_PER_MS = 1_000_000
_EPOCH_BITS = 32

MOMENTS = ("deployed", "ready", "faults", "recovered")
"""At which ZooKeeper is asked in every run (:data:`history.schema.ZOOKEEPER`)."""


def zookeeper_work(rows: Sequence[Row]) -> ZooKeeperWork:
    """Of a run, from its table ``zookeeper``."""
    at = _moments(rows)
    return ZooKeeperWork(
        writes_to_create=_writes(at, ("deployed", None), ("ready", None)),
        writes_under_faults=_writes(at, ("faults", None), ("recovered", None)),
        watches=_watches(at, ("ready", None)),
    )


def failovers(
    planned: Sequence[PlannedFailover], rows: Sequence[Row], zookeeper: Sequence[Row]
) -> tuple[Failover, ...]:
    """The failovers that were planned, from the tables ``failovers`` and ``zookeeper``."""
    at = _moments(zookeeper)
    return tuple(_failover(plan.partitions, rows, at) for plan in planned)


def findings(run: PlannedRun, rows: Sequence[Row], zookeeper: Sequence[Row]) -> Iterator[str]:
    """What is missing of the measurements."""
    at = _moments(zookeeper)
    missing = [moment for moment in MOMENTS if (moment, None) not in at]
    if missing and run.zookeeper:
        yield f"what ZooKeeper had counted is unknown at: {', '.join(missing)}"
    for failover in failovers(run.failovers, rows, zookeeper):
        if failover.led_ms is None or failover.acked_ms is None:
            yield f"the failover of {failover.partitions} partitions was not measured whole"


Moments = Mapping[tuple[str, int | None], Sequence[Row]]


def _moments(rows: Sequence[Row]) -> Moments:
    found: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        found.setdefault((row["moment"], row["partitions"]), []).append(row)
    return found


def _writes(
    at: Moments, before: tuple[str, int | None], after: tuple[str, int | None]
) -> int | None:
    """The transactions between two moments; None where one of them was not recorded, and where
    the ensemble had another leader in between: it counts from 0."""
    if not at.get(before) or not at.get(after):
        return None
    first, last = (max(int(row["zxid"]) for row in at[moment]) for moment in (before, after))
    return last - first if last >> _EPOCH_BITS == first >> _EPOCH_BITS else None


def _watches(at: Moments, moment: tuple[str, int | None]) -> int | None:
    """All of the ensemble's but the harness's own."""
    rows = at.get(moment)
    if not rows:
        return None
    all_set = sum(int(row["watches"]) for row in rows)
    return all_set - max(int(row["harness_watches"]) for row in rows)


def _failover(partitions: int, rows: Sequence[Row], at: Moments) -> Failover:
    mine = [row for row in rows if row["partitions"] == partitions]
    whole = bool(mine) and all(row["moved"] == len(mine) for row in mine)
    return Failover(
        partitions=partitions,
        moved=len(mine) if whole else None,
        led_ms=_slowest(mine, "led") if whole else None,
        acked_ms=_slowest(mine, "acked") if whole else None,
        writes=_writes(at, ("grown", partitions), ("failed-over", partitions)),
        watches=_watches(at, ("grown", partitions)),
    )


def _slowest(rows: Sequence[Row], what: str) -> int | None:
    """Milliseconds from the kill until the last of the partitions; None where one never was."""
    if any(row[what] is None for row in rows):
        return None
    return max(int(row[what]) - int(row["killed"]) for row in rows) // _NS_PER_MS
