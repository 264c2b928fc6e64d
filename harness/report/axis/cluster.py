"""The cluster of a run on its time axis: leaders and ISRs of partitions, the controller, and the
brokers' sessions, as the table ``cluster`` has them."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ackproof.checkers.context.faults import FaultFacts, Partition
from ackproof.checkers.context.observed import (
    NO_LEADER,
    UNKNOWN,
    ClusterObservation,
    Observed,
    Span,
)
from ackproof.harness.report.axis.bins import Bins, Pairs, thinned
from ackproof.harness.report.axis.document import (
    PartitionRow,
    PartitionSpan,
    StateRow,
    StateSpan,
)
from ackproof.history.cell import Cell

PARTITIONS_MAX = 60
"""The most partitions of a document."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Damage:
    """The lost and the duplicated records of a partition, by the bins of their acks."""

    lost: Pairs
    duplicated: Pairs

    @property
    def records(self) -> int:
        return sum(many for _, many in (*self.lost, *self.duplicated))


UNDAMAGED = Damage([], [])


def partition_rows(
    rows: Sequence[Row],
    cells: Sequence[Cell],
    faults: Sequence[FaultFacts],
    within: Bins,
    damage: Mapping[Partition, Damage],
) -> tuple[list[PartitionRow], int]:
    """Return the rows of the cells' partitions with most events, in the cells' order, and the
    number of others. Damage counts most, then a small ISR or no leader, then changes."""
    observed = ClusterObservation(rows)
    found: list[tuple[tuple[int, int, int], PartitionRow]] = []
    for cell in cells:
        for key in cell.topic_partitions:
            spans = _spans(observed.of(key), cell, key, faults, within)
            own = damage.get(key, UNDAMAGED)
            row = PartitionRow(
                cell=cell.name,
                name=f"{key[0]}-{key[1]}",
                spans=spans,
                lost=own.lost,
                duplicated=own.duplicated,
                rank=0,
            )
            bad = sum(_is_bad(one) for one in spans or ())
            found.append(((own.records, bad, sum(one.changes for one in spans or ())), row))
    order = sorted(range(len(found)), key=lambda place: found[place][0], reverse=True)
    ranks = {place: rank for rank, place in enumerate(order[:PARTITIONS_MAX])}
    chosen = [replace(found[place][1], rank=rank) for place, rank in sorted(ranks.items())]
    return chosen, len(found) - len(chosen)


def unobserved(rows: Sequence[Row], within: Bins) -> list[tuple[float, float]]:
    """Return the times in which nothing of the cluster was observed."""
    holes = ClusterObservation(rows).of(("", 0)).holes
    return [
        (within.seconds(hole.start), within.seconds(min(hole.end, within.end)))
        for hole in holes
        if within.start < hole.end and hole.start < within.end
    ]


def _is_bad(span: PartitionSpan) -> bool:
    return span.leader == NO_LEADER or (span.isr is not None and len(span.isr) < span.needed)


def _spans(
    observed: Observed,
    cell: Cell,
    key: Partition,
    faults: Sequence[FaultFacts],
    within: Bins,
) -> list[PartitionSpan] | None:
    if not observed.states:
        return None
    orders = list(_orders(key, faults))
    seen = [state.time for state in observed.states]
    times = {*seen, *(edge for _, span in orders for edge in (span.start, span.end))}
    spans: list[PartitionSpan] = []
    for time in sorted(time for time in times if seen[0] <= time < within.end):
        state = observed.states[bisect_right(seen, time) - 1]
        values = [value for value, span in orders if span.start <= time < span.end]
        span = PartitionSpan(
            since=within.seconds(time),
            leader=None if state.leader == UNKNOWN else state.leader,
            epoch=None if state.leader_epoch == UNKNOWN else state.leader_epoch,
            isr=state.isr,
            needed=min(values, default=cell.min_insync_replicas),
        )
        if time <= within.start:
            spans.clear()  # Of everything before the axis, only the last state is on it.
        if not spans or replace(span, since=spans[-1].since) != spans[-1]:
            spans.append(span)
    return _thinned(spans, within)


def _orders(key: Partition, faults: Sequence[FaultFacts]) -> Iterator[tuple[int, Span]]:
    """Yield the values of min.insync.replicas that faults set for a partition, with their times."""
    for fault in faults:
        if fault.min_isr is not None and fault.injected is not None and fault.touches(key):
            yield fault.min_isr, Span(fault.injected, fault.over)


def _thinned(spans: list[PartitionSpan], within: Bins) -> list[PartitionSpan]:
    """Return the spans. Of many, those of a bin are the one with the smallest ISR, and the last."""
    found = []
    for places in thinned((within.time(span.since) for span in spans), within):
        own = [spans[place] for place in places]
        least = min(own, key=lambda span: (len(span.isr or ()), span.leader != NO_LEADER))
        found.append(replace(least, since=own[0].since, changes=len(own)))
        if len(own) > 1 and own[-1] != least:
            found.append(own[-1])
    return found


def state_rows(rows: Sequence[Row], within: Bins) -> list[StateRow]:
    """Return the rows of the controller and of each broker's session. A part of which the history
    has nothing was not observed."""
    ordered = sorted(rows, key=lambda row: row["time"])
    of_controller = [row for row in ordered if row["kind"] == "controller"]
    found = [StateRow(name="controller", spans=_states(of_controller, _in_office, within))]
    sessions = [row for row in ordered if row["kind"] in ("broker-up", "broker-down")]
    brokers = sorted({row["broker"] for row in sessions if row["broker"] is not None})
    if not brokers:
        return [*found, StateRow(name="brokers", spans=None)]
    for broker in brokers:
        own = [row for row in sessions if row["broker"] == broker]
        spans = _states(own, _registered, within)
        found.append(StateRow(name=f"broker-{broker}", spans=spans))
    return found


def _in_office(row: Row) -> tuple[str, bool]:
    if row["broker"] is None:
        return "none", False
    epoch = row["controller_epoch"]
    return f"{row['broker']}" + ("" if epoch is None else f", epoch {epoch}"), True


def _registered(row: Row) -> tuple[str, bool]:
    return ("registered", True) if row["kind"] == "broker-up" else ("not registered", False)


def _states(
    rows: Sequence[Row], words_of: Callable[[Row], tuple[str, bool]], within: Bins
) -> list[StateSpan] | None:
    spans: list[StateSpan] = []
    for row in rows:
        if row["time"] >= within.end:
            break
        words, well = words_of(row)
        if row["time"] <= within.start:
            spans.clear()
        if not spans or spans[-1].words != words:
            spans.append(StateSpan(since=within.seconds(row["time"]), words=words, well=well))
    return spans or None
