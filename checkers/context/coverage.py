"""The coverage of faults: whether a cell acknowledged records before, during and after each fault.

A partition with acks only before the first fault, or one that no fault touched, shows nothing about
faults, whatever happened to its records and its neighbours. For each proven fault and each
partition of the cell that it touched, the partition must therefore have acks

- before the fault was about to be injected,
- while the fault was in full strength, where it allowed acks (below),
- after the fault was proven healed.

A fault neither requires nor adds acks for a partition that it did not touch. Times are compared
strictly with the clock bound: an ack that may have been given at another time does not count.

**Where a fault allows acks.** The observation must show all of the following for at least two
seconds without interruption, while the fault was in full strength:

- The partition was led by a broker that no active fault affected.
- With acks=all, every member of its ISR was such a broker, and there were at least
  min.insync.replicas of them. The highest value counts if a fault sets another one.
- The leader did not keep the cell's producer waiting for another partition. Neither did any other
  leader while the producer had to learn of this one.
- If the leader before had stopped responding with its connections open, the clients had the time
  that they need to notice.
- The controller that elected the leader was not affected by a fault before it had certainly
  informed the leader.

Nothing is required where nothing was observed: without ZooKeeper the observer does not know the
leader. Nothing is required while a fault affected the clients themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ackproof.checkers.context.faults import FOREVER, FaultFacts, Partition
from ackproof.checkers.context.observed import (
    NEVER,
    OBSERVATION_LAG_NS,
    ClusterObservation,
    Observed,
    PartitionState,
    Span,
)
from ackproof.history.cell import Cell

ALLOWED_FOR_NS = 2_000_000_000
"""The time that clients need to learn of a new leader and to receive an answer. Their metadata
requests and retries are up to a second apart."""

NOTICED_AFTER_NS = 12_000_000_000
"""The time after which clients have noticed that a leader with open connections does not respond.
It answers within request.timeout.ms, if at all, and they drop it after socket.timeout.ms. These are
5 and 6 s for our clients, and librdkafka checks them once a second."""

TOLD_WITHIN_NS = 1_000_000_000
"""The time from an election until the controller that wrote it to ZooKeeper has sent it to the
brokers. It sends at once, but to brokers that may be busy."""

BEGINNING = 0

MOMENTS = ("before", "during", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class AckPeriod:
    """A period in which acks are counted. ``when`` is one of MOMENTS and refers to one fault."""

    fault_id: int
    when: str
    span: Span

    @property
    def name(self) -> str:
        """The name of the count, for example ``acked before 1``."""
        return f"acked {self.when} {self.fault_id}"


def ack_periods(faults: Iterable[FaultFacts], bound: int) -> Iterator[AckPeriod]:
    """Yield the periods around each proven fault, for a clock within ``bound`` of the harness's."""
    for fault in faults:
        if not fault.is_effective:
            continue
        strength = full_strength(fault)
        spans = {
            "before": Span(BEGINNING, fault.start - bound),
            "during": Span(strength.start + bound, strength.end - bound),
            "after": Span(min(fault.over + bound, FOREVER), FOREVER),
        }
        for when, span in spans.items():
            yield AckPeriod(fault_id=fault.fault_id, when=when, span=span)


def full_strength(fault: FaultFacts) -> Span:
    """Return the span from the injection of a fault until it was about to be healed."""
    start = fault.start if fault.injected is None else fault.injected
    return Span(start, fault.end if fault.heal is None else fault.heal)


def touching(faults: Iterable[FaultFacts], cell: Cell) -> list[FaultFacts]:
    """Return the faults that touched a partition of a cell."""
    return [fault for fault in faults if any(map(fault.touches, cell.topic_partitions))]


def lacking(
    cell: Cell,
    faults: Iterable[FaultFacts],
    observation: ClusterObservation,
    counts: Mapping[Partition, Mapping[str, int]],
) -> Iterator[str]:
    """Describe the acks that a cell lacks, a sentence for each fault and moment.

    Args:
        faults: The faults of the run.
        counts: The acks of each partition by :attr:`AckPeriod.name`. A partition that was not
            reconciled is left out, because that is reported elsewhere.
    """
    faults = tuple(faults)
    for fault in touching(faults, cell):
        if not fault.is_effective or fault.unordered:  # the campaign tests only what it orders
            continue
        # It is unknown whether a fault without a proven heal is over. That is already missing
        # evidence.
        for when in MOMENTS if fault.over < FOREVER else MOMENTS[:-1]:
            touched = (partition for partition in counts if fault.touches(partition))
            silent = [one for one in touched if not _acked(fault, when, counts[one])]
            if when == "during" and silent:
                allowed = _allowed(cell, fault, faults, observation)
                silent = [partition for partition in silent if partition in allowed]
            if silent:
                names = ", ".join(f"{topic}-{number}" for topic, number in silent)
                yield f"no ack {when} {fault.label} on {fault.target}, which affected {names}"


def silent_since_heal(
    cell: Cell, faults: Iterable[FaultFacts], counts: Mapping[Partition, Mapping[str, int]]
) -> Iterator[Partition]:
    """Yield the partitions that acknowledged nothing after the last fault on them was healed.

    ``counts``: as in :func:`lacking`.
    """
    healed = [
        fault for fault in touching(faults, cell) if fault.is_effective and fault.over < FOREVER
    ]
    for partition, acks in counts.items():
        own = [fault for fault in healed if fault.touches(partition)]
        if own and not _acked(max(own, key=lambda one: one.over), "after", acks):
            yield partition


def _acked(fault: FaultFacts, when: str, acks: Mapping[str, int]) -> bool:
    """Return whether a partition acknowledged anything in a period of a fault."""
    return bool(acks.get(AckPeriod(fault_id=fault.fault_id, when=when, span=NEVER).name))


def _allowed(
    cell: Cell, fault: FaultFacts, faults: Iterable[FaultFacts], observation: ClusterObservation
) -> set[Partition]:
    """Return the partitions of a cell for which a fault allowed acks while it was in full
    strength."""
    strength = full_strength(fault)
    on = [other for other in faults if Span(other.start, other.end).meets(strength)]
    # A client that is paused or cut off receives no acks, whatever the cluster does.
    if any(other.brokers is None or other.on_clients for other in on):
        return set()
    affected = {broker for other in on for broker in other.brokers or ()}
    # While its topic's min.insync.replicas is being changed, either value may be in force. Acks are
    # required where the higher one would allow them.
    set_to = [other.min_isr for other in touching(on, cell) if other.min_isr is not None]
    in_sync = max([cell.min_insync_replicas, *set_to])
    observed = {partition: observation.of(partition) for partition in cell.topic_partitions}
    waiting = [
        (span, state.leader)
        for one in observed.values()
        for span, state in one.spans()
        if _waits(cell, state, affected, in_sync)
    ]
    return {
        partition
        for partition, one in observed.items()
        if not one.blind(strength)
        and _longest(
            strength,
            [
                *_silent(cell, one, affected, in_sync),
                *_behind_others(one, waiting),
                *_unheard(one, waiting),
                *_unnoticed(one, on),
                *_untold(one, on, observation),
            ],
        )
        >= ALLOWED_FOR_NS
    }


def _silent(cell: Cell, one: Observed, affected: set[int], in_sync: int) -> Iterator[Span]:
    """Yield the spans in which a partition could not acknowledge records. ``in_sync`` is the number
    of replicas that acks=all takes."""
    for span, state in one.spans():
        if not _gives_acks(cell, state, affected, in_sync):
            yield span


def _behind_others(one: Observed, waiting: Iterable[tuple[Span, int]]) -> Iterator[Span]:
    """Yield the spans in which a partition's leader kept its cell's producer waiting for another
    partition. Requests on a connection are answered in order, so an ack that could be given at once
    is delayed."""
    for other, leader in waiting:
        for span, state in one.spans():
            if state.leader == leader and span.meets(other):
                yield Span(max(span.start, other.start), min(span.end, other.end))


def _unheard(one: Observed, waiting: Iterable[tuple[Span, int]]) -> Iterator[Span]:
    """Yield the spans in which clients may not have learned of a partition's new leader. For
    example, broker 3 leads t-1 and is in the ISR of t-0, which broker 1 leads. Broker 3 crashes.
    The producer asks broker 1 for the leader of t-1 on the connection on which it waits for t-0. It
    learns of broker 2 only when broker 1 has dropped broker 3 from the ISR."""
    for other, asked in waiting:
        for before, after in one.changes():
            has_moved = after.leader not in (before.leader, asked)
            if has_moved and other.start <= after.time < other.end:
                yield Span(after.time, other.end)


def _unnoticed(one: Observed, on: Iterable[FaultFacts]) -> Iterator[Span]:
    """Yield the spans in which clients may not have noticed yet that a partition's leader had
    stopped responding."""
    for fault in on:
        until = fault.start + NOTICED_AFTER_NS
        led_by = {state.leader for state in one.during(Span(fault.start, fault.start + 1))}
        if fault.silent and led_by & (fault.brokers or set()):
            yield Span(fault.start, until)


def _untold(
    one: Observed, on: Iterable[FaultFacts], observation: ClusterObservation
) -> Iterator[Span]:
    """Yield the spans in which a partition's leader may not have learned that it leads. For
    example, broker 2 becomes controller, writes that broker 4 leads, and is killed 50 ms later.
    Until the next controller informs it, broker 4 answers that it is not the leader."""
    elected = [after for before, after in one.changes() if after.leader_epoch > before.leader_epoch]
    for fault in on:
        tenure = observation.tenure(fault.start)
        if tenure is None or tenure[0] not in (fault.brokers or ()):
            continue
        written = Span(fault.start - TOLD_WITHIN_NS, fault.start + OBSERVATION_LAG_NS)
        for state in elected:
            if written.start <= state.time < min(written.end, tenure[1].end):
                yield Span(state.time, tenure[1].end)


def _longest(within: Span, but: Iterable[Span]) -> int:
    """Return the longest uninterrupted time in a span outside some other spans, in nanoseconds."""
    longest, free = 0, within.start
    for span in sorted(but, key=lambda span: span.start):
        longest = max(longest, min(span.start, within.end) - free)
        free = max(free, span.end)
    return max(longest, within.end - free)


def _gives_acks(cell: Cell, state: PartitionState, affected: set[int], in_sync: int) -> bool:
    if state.leader < 0 or state.leader in affected:
        return False
    if cell.acks != "all":
        return True
    # An ISR of three shrinks to two only a replica lag after one of them was cut off. Until then
    # the leader waits for it, and nothing is acked.
    return len(state.isr) >= in_sync and not affected & set(state.isr)


def _waits(cell: Cell, state: PartitionState, affected: set[int], in_sync: int) -> bool:
    """Return whether a leader keeps producers waiting for an in-sync replica that a fault affected.
    If the ISR is too small it does not wait but rejects the request."""
    if cell.acks != "all" or state.leader < 0 or state.leader in affected:
        return False
    return len(state.isr) >= in_sync and bool(affected & set(state.isr))
