"""Whether a cell lived through the faults: its acks before, during and after each.

A partition that was acked something only before the first fault, or that no fault touched, shows
nothing about faults, whatever became of its records and whatever its neighbours were acked. So, for
each proven fault and each partition of the cell that it touched, acks of that partition are wanted

- before it was about to be injected,
- while it was in full strength, where it allowed acks (below),
- after it was proven healed.

A fault takes and gives nothing to a partition that it did not touch. Times are compared with the
clock bound on the strict side: an ack that may have been given at another time does not count.

**Where a fault allows acks.** For at least two seconds on end, while it was in full strength, the
partition was seen to be led by a broker that no fault befell which was on then; and
with acks=all its whole ISR was such brokers, min.insync.replicas of them at least (the highest
value, where a fault sets another). Nor did that leader keep the cell's producer waiting for another
partition meanwhile, nor any other leader while the producer had to hear of this one; and where the
leader had been another that fell silent with its connections open, clients had the time that they
take to notice. Nor had the controller that elected it been struck before it was sure to have told
it. Nothing is asked of what was not seen: while the observer had no ZooKeeper it does not know who
led. Nor while a fault befell the clients themselves."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ackproof.checkers.context.faults import FOREVER, FaultFacts, Partition
from ackproof.checkers.context.observed import (
    NEVER,
    OBSERVATION_LAG_NS,
    Observation,
    Observed,
    Span,
    State,
)
from ackproof.history.cell import Cell

ALLOWED_FOR_NS = 2_000_000_000
"""Clients need this much to hear of a new leader and to be answered: their metadata requests and
retries are up to a second apart."""

NOTICED_AFTER_NS = 12_000_000_000
"""By then clients have noticed that a leader is silent whose connections are open: it answers by
request.timeout.ms, if at all, and they give it up by socket.timeout.ms, 5 and 6 s of our clients;
that is looked at once a second."""

TOLD_WITHIN_NS = 1_000_000_000
"""Of an election, until the controller that wrote it to ZooKeeper has told who leads now: it sends
as soon as it has written, to brokers that may be busy."""

BEGINNING = 0

MOMENTS = ("before", "during", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When acks are counted: ``when`` a word of MOMENTS, of one fault."""

    fault_id: int
    when: str
    span: Span

    @property
    def name(self) -> str:
        """What the count is called, e.g. ``acked before 1``."""
        return f"acked {self.when} {self.fault_id}"


def moments(faults: Iterable[FaultFacts], bound: int) -> Iterator[Moment]:
    """The moments around each proven fault, as a clock within ``bound`` of ours tells them."""
    for fault in faults:
        if not fault.bit:
            continue
        strength = full_strength(fault)
        spans = {
            "before": Span(BEGINNING, fault.start - bound),
            "during": Span(strength.start + bound, strength.end - bound),
            "after": Span(min(fault.over + bound, FOREVER), FOREVER),
        }
        for when, span in spans.items():
            yield Moment(fault_id=fault.fault_id, when=when, span=span)


def full_strength(fault: FaultFacts) -> Span:
    """From the moment it was injected until it was about to be healed."""
    start = fault.start if fault.injected is None else fault.injected
    return Span(start, fault.end if fault.heal is None else fault.heal)


def touching(faults: Iterable[FaultFacts], cell: Cell) -> list[FaultFacts]:
    """The faults that touched a partition of a cell."""
    return [fault for fault in faults if any(map(fault.touches, cell.topic_partitions))]


def lacking(
    cell: Cell,
    faults: Iterable[FaultFacts],
    observation: Observation,
    counts: Mapping[Partition, Mapping[str, int]],
) -> Iterator[str]:
    """Describe the acks that a cell lacks, a sentence for each fault and moment.

    Args:
        faults: Of the run.
        counts: The acks of each partition by :attr:`Moment.name`. A partition that was not
            reconciled is left out: that is reported elsewhere.
    """
    faults = tuple(faults)
    for fault in touching(faults, cell):
        if not fault.bit:
            continue
        # Whether a fault is over that is not proven healed nobody knows: that is lacking already.
        for when in MOMENTS if fault.over < FOREVER else MOMENTS[:-1]:
            touched = (partition for partition in counts if fault.touches(partition))
            silent = [one for one in touched if not _acked(fault, when, counts[one])]
            if when == "during" and silent:
                allowed = _allowed(cell, fault, faults, observation)
                silent = [partition for partition in silent if partition in allowed]
            if silent:
                names = ", ".join(f"{topic}-{number}" for topic, number in silent)
                yield f"no ack {when} {fault.label} on {fault.target}, which touched {names}"


def silent_since_heal(
    cell: Cell, faults: Iterable[FaultFacts], counts: Mapping[Partition, Mapping[str, int]]
) -> Iterator[Partition]:
    """Yield the partitions that acknowledged nothing after the last fault on them was healed.

    ``counts``: as in :func:`lacking`.
    """
    healed = [fault for fault in touching(faults, cell) if fault.bit and fault.over < FOREVER]
    for partition, acks in counts.items():
        own = [fault for fault in healed if fault.touches(partition)]
        if own and not _acked(max(own, key=lambda one: one.over), "after", acks):
            yield partition


def _acked(fault: FaultFacts, when: str, acks: Mapping[str, int]) -> bool:
    """Return whether a partition acknowledged anything at a moment of a fault."""
    return bool(acks.get(Moment(fault_id=fault.fault_id, when=when, span=NEVER).name))


def _allowed(
    cell: Cell, fault: FaultFacts, faults: Iterable[FaultFacts], observation: Observation
) -> set[Partition]:
    """Return the partitions of a cell that a fault allowed acks while it was in full strength."""
    strength = full_strength(fault)
    on = [other for other in faults if Span(other.start, other.end).meets(strength)]
    # A client that is paused or cut off is acked nothing, whatever the cluster would give.
    if any(other.brokers is None or other.on_clients for other in on):
        return set()
    befallen = {broker for other in on for broker in other.brokers or ()}
    # While its topic's min.insync.replicas is being set, any value may be in force: acks are asked
    # for where the highest of them would give them.
    set_to = [other.min_isr for other in touching(on, cell) if other.min_isr is not None]
    in_sync = max([cell.min_insync_replicas, *set_to])
    observed = {partition: observation.of(partition) for partition in cell.topic_partitions}
    waiting = [
        (span, state.leader)
        for one in observed.values()
        for span, state in one.spans()
        if _waits(cell, state, befallen, in_sync)
    ]
    return {
        partition
        for partition, one in observed.items()
        if not one.blind(strength)
        and _longest(
            strength,
            [
                *_silent(cell, one, befallen, in_sync),
                *_behind_others(one, waiting),
                *_unheard(one, waiting),
                *_unnoticed(one, on),
                *_untold(one, on, observation),
            ],
        )
        >= ALLOWED_FOR_NS
    }


def _silent(cell: Cell, one: Observed, befallen: set[int], in_sync: int) -> Iterator[Span]:
    """When a partition could give no acks. ``in_sync``: how many replicas acks=all takes."""
    for span, state in one.spans():
        if not _gives_acks(cell, state, befallen, in_sync):
            yield span


def _behind_others(one: Observed, waiting: Iterable[tuple[Span, int]]) -> Iterator[Span]:
    """When a partition's leader kept its cell's producer waiting for another partition: requests of
    a connection are answered in their order, so that what is acked at once is not told."""
    for other, leader in waiting:
        for span, state in one.spans():
            if state.leader == leader and span.meets(other):
                yield Span(max(span.start, other.start), min(span.end, other.end))


def _unheard(one: Observed, waiting: Iterable[tuple[Span, int]]) -> Iterator[Span]:
    """When clients may not have heard of a partition's new leader: broker 3 dies, which leads t-1
    and is in the ISR of t-0, led by 1. The producer asks 1 who leads t-1 now, on the connection on
    which it waits for t-0, and hears of 2 when 1 has dropped 3 from the ISR."""
    for other, asked in waiting:
        for before, after in one.changes():
            has_moved = after.leader not in (before.leader, asked)
            if has_moved and other.start <= after.time < other.end:
                yield Span(after.time, other.end)


def _unnoticed(one: Observed, on: Iterable[FaultFacts]) -> Iterator[Span]:
    """When clients may not have noticed yet that a partition's leader had fallen silent."""
    for fault in on:
        until = fault.start + NOTICED_AFTER_NS
        led_by = {state.leader for state in one.during(Span(fault.start, fault.start + 1))}
        if fault.silent and led_by & (fault.brokers or set()):
            yield Span(fault.start, until)


def _untold(one: Observed, on: Iterable[FaultFacts], observation: Observation) -> Iterator[Span]:
    """When a partition's leader may not have heard that it leads: broker 2 becomes controller,
    writes that 4 leads, and is killed 50 ms later. Until the next controller tells 4 of it, it
    answers that it does not."""
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
    """The longest time on end in a span that is in none of some others; nanoseconds."""
    longest, free = 0, within.start
    for span in sorted(but, key=lambda span: span.start):
        longest = max(longest, min(span.start, within.end) - free)
        free = max(free, span.end)
    return max(longest, within.end - free)


def _gives_acks(cell: Cell, state: State, befallen: set[int], in_sync: int) -> bool:
    if state.leader < 0 or state.leader in befallen:
        return False
    if cell.acks != "all":
        return True
    # The ISR of three shrinks to two a replica lag after one of them was cut off; until then the
    # leader waits for it, and nothing is acked.
    return len(state.isr) >= in_sync and not befallen & set(state.isr)


def _waits(cell: Cell, state: State, befallen: set[int], in_sync: int) -> bool:
    """Whether a leader keeps who sends to it waiting: for a replica in the ISR that a fault befell.
    Where the ISR is too small it does not wait, it refuses."""
    if cell.acks != "all" or state.leader < 0 or state.leader in befallen:
        return False
    return len(state.isr) >= in_sync and bool(befallen & set(state.isr))
