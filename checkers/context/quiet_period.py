"""The quiet period of a run: the time after the cluster has recovered from the last fault and
before the clients are asked to end. Nothing then keeps a client from making progress."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.observed import NEVER, Span
from ackproof.checkers.context.row_times import SKEW_ALLOWED_NS
from ackproof.checkers.context.run import RunEvidence
from ackproof.history.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietPeriod:
    """The quiet period of a cell. ``span`` is ``NEVER`` if there was none or it is unknown, and
    ``why`` has the reasons, a sentence each."""

    span: Span
    why: tuple[str, ...] = ()


def quiet_period_of(run: RunEvidence, cell: Cell) -> QuietPeriod:
    """Return the quiet period of a cell. It begins after every fault, including those on clients
    alone, because a client that hung for longer than its session must join its group again."""
    if why := tuple(_why_not(run, cell)):
        return QuietPeriod(span=NEVER, why=why)
    begun = max(row["time"] for row in _looks(run, cell).values())
    assert run.asked_to_end is not None
    if run.asked_to_end <= begun:
        return QuietPeriod(
            span=NEVER, why=("clients were asked to end before the cluster had recovered",)
        )
    return QuietPeriod(span=Span(begun, run.asked_to_end))


def _why_not(run: RunEvidence, cell: Cell) -> Iterator[str]:
    for table in sorted(run.incomplete & {"faults", "recovery", "phases", "clients", "clocks"}):
        yield f"the table {table} is incomplete"
    told = {fault.fault_id for fault in run.faults}
    for plan in run.planned.faults:
        if plan.fault_id not in told:
            yield f"no record of {plan.fault}#{plan.fault_id}"
    for fault in run.faults:
        if fault.over == FOREVER:
            yield f"{fault.label} is not proven healed"
    healed = max((f.over for f in run.faults if f.over < FOREVER), default=0)
    looks = _looks(run, cell)
    for topic, number in cell.topic_partitions:
        look = looks.get((topic, number))
        if look is None or look["time"] < healed or not look["whole"]:
            yield f"the recovery of {topic}-{number} was not observed"
    if run.asked_to_end is None:
        yield "the time at which clients were asked to end is unknown"
    bound = run.clock_bound_ns(cell.topic_partitions[0], "sends", "polls", "deliveries")
    if bound is None or bound > SKEW_ALLOWED_NS:
        yield "the clocks of its clients are not known well enough"


def _looks(run: RunEvidence, cell: Cell) -> Mapping[tuple[str, int], Mapping[str, Any]]:
    rows: Sequence[Mapping[str, Any]] = run.recovery
    mine = set(cell.topic_partitions)
    found = {(row["topic"], row["partition"]): row for row in rows}
    return {key: row for key, row in found.items() if key in mine}
