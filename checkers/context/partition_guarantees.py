"""The guarantees for one partition of a run: for its acks, its reads, and the agreement of its
replicas."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ackproof.checkers.context.fault_windows import settle_ns
from ackproof.checkers.context.faults import (
    BY_THEMSELVES,
    FOREVER,
    SILENTLY,
    UNCLEANLY,
    UNSYNCED,
    FaultFacts,
    Partition,
)
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS, Observed, PartitionState, Span
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.status import GuaranteeStatus
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.checkers.context.validity import (
    ValidityWindow,
    ack_window,
    data_loss_span,
    ordered_elections,
    read_window,
    unclean_elections,
)
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The status of the guarantee that a partition's replicas agree, and the reasons why it does
    not or may not apply, a sentence each."""

    standing: GuaranteeStatus = GuaranteeStatus.PROMISED
    why: tuple[str, ...] = ()


def agreement(cell: Cell, partition: Partition, around: PartitionSurroundings) -> Agreement:
    """Return the status of the guarantee for one partition."""
    excuses = list(_excuses(cell, partition, around))
    certain = [why for why, proven_ in excuses if proven_]
    if certain:
        return Agreement(standing=GuaranteeStatus.UNPROMISED, why=tuple(dict.fromkeys(certain)))
    if excuses:
        return Agreement(standing=GuaranteeStatus.UNKNOWN, why=tuple(dict(excuses)))
    return Agreement()


def _excuses(
    cell: Cell, partition: Partition, around: PartitionSurroundings
) -> Iterator[tuple[str, bool]]:
    """Yield the possible excuses for a disagreement, and whether each is certain."""
    faults = tuple(fault for fault in around.faults if fault.touches(partition))
    spared = UNSYNCED if cell.flushes_every_record else None
    for fault in faults:
        if fault.destroys == SILENTLY:
            yield f"{fault.label} changed data on the disks of replicas", fault.proven
        elif data_loss_span(fault) is not None and fault.destroys not in (spared, UNCLEANLY):
            yield from _led_on(around.observed, fault)
    elections = (
        unclean_elections(around, faults, Span(0, FOREVER))
        if cell.unclean_leader_election
        else ordered_elections(around, faults)
    )
    for limit in elections:
        yield limit.why, limit.certain
    if cell.unclean_leader_election and _unseen(around.observed):
        yield "its elections were not all observed", False


def _led_on(observed: Observed, fault: FaultFacts) -> Iterator[tuple[str, bool]]:
    """Yield an excuse if a broker led that a fault had taken data from, after its restart and
    before it was observed out of the ISR. A broker that joins the ISR again has caught up."""
    why = f"{fault.taker} took data from the disk of a broker that led before it had caught up"
    returns = fault.start if fault.name in BY_THEMSELVES else fault.heal
    back = fault.start if returns is None else returns
    if fault.brokers is None:
        yield why, False
    for broker in fault.brokers or ():
        whole = (span.start for span, state in observed.spans() if _left(broker, span, state, back))
        damaged = Span(back, max(next(whole, FOREVER), back))
        during = observed.during(damaged)
        # If epoch 5 had leader B and epoch 7 leader C, the damaged broker may have led in epoch 6.
        jumps = any(
            after.leader_epoch - before.leader_epoch > 1 or before.leader_epoch < 0
            for before, after in pairwise(during)
        )
        if any(state.leader == broker for state in during):
            yield why, fault.proven and not observed.blind(damaged)
        elif jumps or (damaged.start < damaged.end and observed.blind(damaged)):
            yield why, False


def _left(broker: int, span: Span, state: PartitionState, since: int) -> bool:
    """Return whether a broker was observed out of the ISR in a state that was in force after
    ``since``. With KIP-966 the last member also leaves the ISR when it stops, and stays
    eligible."""
    return span.end > since and bool(state.isr) and broker not in state.isr


def _unseen(observed: Observed) -> bool:
    """Return whether elections may have gone unobserved before the first state or after the
    last."""
    led_before = not observed.states or observed.states[0].leader_epoch > 0
    return led_before or observed.observer_lost


# --- promised -------------------------------------------------------------------------------------
#
# The guarantees for each partition of a run and for the groups that read it, from the run's tables.


OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
_OFFSETS = Cell(name=OFFSETS_TOPIC, topic=OFFSETS_TOPIC, settings={"acks": "all"})
"""The cell that stands for the offsets topic. Offsets are written with acks=all
(``offsets.commit.required.acks``)."""
_SHARES = Cell(name=SHARE_TOPIC, topic=SHARE_TOPIC, settings={"acks": "all"})
"""The cell that stands for the topic with the state of share groups, which is written in the same
way."""


def ack_window_of(run: RunEvidence, cell: Cell, partition: Partition) -> ValidityWindow:
    """Return the validity window in which a partition's acked records are kept."""
    return ack_window(cell, partition, _until_read(run, surroundings_of(run, partition)))


def read_window_of(run: RunEvidence, cell: Cell, partition: Partition) -> ValidityWindow:
    """Return the validity window in which reads of a partition stay."""
    bound = run.clock_bound_ns(partition, "sends", "polls", "deliveries")
    surroundings = _until_read(run, surroundings_of(run, partition))
    return read_window(cell, partition, replace(surroundings, clock_bound_ns=bound))


def share_window_of(run: RunEvidence, cell: Cell, partition: Partition) -> ValidityWindow:
    """Return the validity window in which the deliveries and acknowledgements of a partition's
    records to share groups stay. They depend on the partition, and on the topic with the state of
    all share groups, which is written with acks=all."""
    seen = run.observation
    many = seen.partitions(SHARE_TOPIC) if seen.whole else 0
    found = [read_window_of(run, cell, partition)]
    if not many:
        why = f"the leader of {SHARE_TOPIC} was not observed"
        found.append(ValidityWindow(unknown_before=FOREVER, why=(why,)))
    bound = run.clock_bound_ns(partition, "sends", "deliveries")
    for number in range(many):
        state = (SHARE_TOPIC, number)
        surroundings = replace(surroundings_of(run, state), clock_bound_ns=bound)
        found.append(ack_window(_SHARES, state, _until_read(run, surroundings)))
    return _together(found)


def commit_window_of(run: RunEvidence, group: PlannedGroup, partition: Partition) -> ValidityWindow:
    """Return the validity window in which a group's committed offsets of a partition are kept."""
    kept_in = offsets_partition(run, group)
    if kept_in is None:
        why = f"the coordinator of {group.name} was not observed"
        return ValidityWindow(unknown_before=FOREVER, why=(why,))
    return ack_window(
        _OFFSETS, kept_in, _until_read(run, group_surroundings(run, kept_in, partition))
    )


def transaction_window_of(run: RunEvidence, cell: Cell) -> ValidityWindow:
    """Return the validity window in which the outcome of a cell's transactions stands. Transactions
    extend over all partitions of the cell. They depend on the partitions with their coordinators'
    state and the groups' offsets, which are both written with acks=all."""
    bound = run.clock_bound_ns(cell.topic_partitions[0], "sends", "polls")
    found = []
    for topic, many in _rests_on(run, cell).items():
        if not many:
            why = f"the leader of {topic} was not observed"
            found.append(ValidityWindow(unknown_before=FOREVER, why=(why,)))
        for partition in [(topic, number) for number in range(many)]:
            surroundings = _until_read(
                run, replace(surroundings_of(run, partition), clock_bound_ns=bound)
            )
            found.append(
                ack_window(cell if topic == cell.topic else _OFFSETS, partition, surroundings)
            )
    return _together(found)


def _together(found: Sequence[ValidityWindow]) -> ValidityWindow:
    """Return the window in which all of these hold."""
    return ValidityWindow(
        unpromised_before=max(one.unpromised_before for one in found),
        unknown_before=max(one.unknown_before for one in found),
        unknown_in=tuple(span for one in found for span in one.unknown_in),
        why=tuple(dict.fromkeys(why for one in found for why in one.why)),
    )


def _rests_on(run: RunEvidence, cell: Cell) -> dict[str, int]:
    """Return the number of partitions of each topic that transactions depend on."""
    internal = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
    seen = run.observation
    counts = {topic: seen.partitions(topic) if seen.whole else 0 for topic in internal}
    return {cell.topic: cell.partitions, **counts}


def agreement_of(run: RunEvidence, cell: Cell, partition: Partition) -> Agreement:
    """Return whether a partition's replicas are guaranteed to hold the same log."""
    return agreement(cell, partition, surroundings_of(run, partition))


def within_int64(time: int) -> int:
    """Return a time within the range of int64. A history may contain any time."""
    return max(0, min(time, FOREVER))


def surroundings_of(run: RunEvidence, partition: Partition) -> PartitionSurroundings:
    """Return the surroundings of a partition, with the clock bound of the clients that sent to
    it."""
    return PartitionSurroundings(
        observed=run.observation.of(partition),
        faults=(*run.faults, *run.unrecorded),
        settle_ns=settle_ns(run.planned),
        clock_bound_ns=run.clock_bound_ns(partition),
        tenures=run.observation.tenures,
        combined=frozenset(run.planned.combined),
        pace=run.pace,
    )


def _until_read(run: RunEvidence, surroundings: PartitionSurroundings) -> PartitionSurroundings:
    """Return what happened before the final read had ended. Later events cannot excuse that the
    read missed a record. A change is observed up to a moment after it took place."""
    if run.read_over is None:
        return surroundings
    end = min(run.read_over + OBSERVATION_LAG_NS, FOREVER)
    faults = tuple(fault for fault in surroundings.faults if fault.start < end)
    return replace(surroundings, observed=surroundings.observed.until(end), faults=faults)


def group_surroundings(
    run: RunEvidence, kept_in: Partition, read: Partition
) -> PartitionSurroundings:
    """Return the surroundings of the partition with a group's offsets. The times of commits are
    those of the readers' clocks."""
    return replace(surroundings_of(run, kept_in), clock_bound_ns=run.clock_bound_ns(read, "polls"))


def offsets_partition(run: RunEvidence, group: PlannedGroup) -> Partition | None:
    """Return the partition that stores a group's offsets, as Kafka's *GroupMetadataManager* chooses
    it (``partitionFor``), or None if no such partition was observed."""
    count = run.observation.partitions(OFFSETS_TOPIC) if run.observation.whole else 0
    return (OFFSETS_TOPIC, abs(_java_hash(group.name)) % count) if count else None


def _java_hash(text: str) -> int:
    """Return the absolute value of Java's ``String.hashCode`` as Kafka computes it: 0 for the one
    number that has none."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    signed = code - 2**32 if code >= 2**31 else code
    return 0 if signed == -(2**31) else signed
