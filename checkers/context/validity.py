"""Validity windows of guarantees: the times from which on acks are kept and reads stay, from the
settings of a partition and the events in the cluster."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ackproof.checkers.context.faults import (
    FOREVER,
    SILENTLY,
    UNCLEANLY,
    UNSYNCED,
    FaultFacts,
    Partition,
)
from ackproof.checkers.context.observed import (
    NO_LEADER,
    OBSERVATION_LAG_NS,
    UNKNOWN,
    Observed,
    PartitionState,
    Span,
)
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.history.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrDataLoss:
    """A moment after which no member of ``isr`` is known to have the records acked before
    ``before``. ``certain`` says that certainly none has them. ``fault`` is the last fault that
    damaged a member. If ``isr`` is empty, the members are unknown."""

    before: int
    certain: bool
    isr: tuple[int, ...]
    fault: FaultFacts


@dataclass(slots=True)
class _Damage:
    """The latest damage of one replica.

    Attributes:
        at: The time span of the fault.
        left: Whether the replica has left the ISR since.
        doubtful: Whether it may have joined the ISR again since, with all records.
    """

    fault: FaultFacts
    at: Span
    left: bool = False
    doubtful: bool = False


@dataclass(slots=True)
class _Replicas:
    """The damaged replicas of a partition over time."""

    observed: Observed
    damaged: dict[int, _Damage] = field(default_factory=dict)

    def damage_by(self, at: Span, fault: FaultFacts) -> Iterator[IsrDataLoss]:
        # The ISR at that very moment was one of these.
        states = self.observed.possible(at)
        if fault.brokers is None or (fault.brokers and not self.observed.complete(at)):
            yield _possible_loss(at, fault)
        for broker in fault.brokers or ():
            out = bool(states) and broker not in states[0].isr
            self.damaged[broker] = _Damage(fault=fault, at=at, left=out)
        yield from self._losses(states)

    def become(self, before: PartitionState | None, state: PartitionState) -> Iterator[IsrDataLoss]:
        missed = before is not None and self.observed.missed(before, state)
        if missed:
            yield from self.unseen()
        for broker, damage in list(self.damaged.items()):
            damage.doubtful |= missed
            if broker not in state.isr:
                damage.left = True
            elif damage.left and self.observed.not_before(state) >= damage.at.end:
                del self.damaged[broker]
            elif damage.left:
                # The loss may have come before the replica joined, or afterwards.
                damage.left, damage.doubtful = False, True
        if self._all_damaged(state.isr):
            # Of these states, each may have been in force before the loss.
            ends = [self.observed.widened(self.damaged[broker].at).end for broker in state.isr]
            later = self.observed.during(Span(state.time, max(*ends, state.time + 1)))
            yield from self._losses([state, *(one for one in later if one is not state)])

    def unseen(self) -> Iterator[IsrDataLoss]:
        """Yield a possible loss if a state was missed: the damaged members may have been alone."""
        if self.damaged:
            latest = max(self.damaged.values(), key=lambda damage: damage.at.end)
            yield _possible_loss(latest.at, latest.fault)

    def _losses(self, states: Sequence[PartitionState]) -> Iterator[IsrDataLoss]:
        """Yield the data losses of an ISR that one of these successive states has."""
        void = [state.isr for state in states if self._all_damaged(state.isr)]
        if len(void) == len(states) > 0 and self._is_certain(states):
            yield min((self._loss(isr, certain=True) for isr in void), key=lambda one: one.before)
        for isr in dict.fromkeys(void):
            yield self._loss(isr, certain=False)

    def _loss(self, isr: tuple[int, ...], *, certain: bool) -> IsrDataLoss:
        damages = sorted((self.damaged[broker] for broker in isr), key=lambda one: one.at.end)
        # The member that was damaged first has what was acked since then.
        before, fault = damages[0].at.end, damages[-1].fault
        return IsrDataLoss(before=before, certain=certain, isr=isr, fault=fault)

    def _all_damaged(self, isr: Sequence[int]) -> bool:
        return bool(isr) and self.damaged.keys() >= set(isr)

    def _is_certain(self, states: Sequence[PartitionState]) -> bool:
        """Return whether all members are certainly damaged at once in one of these states."""
        members = {broker for state in states for broker in state.isr}
        damages = [self.damaged[broker] for broker in members]
        # Broker 1 is struck, leaves the ISR and joins it, and only then broker 2 is struck: 1 has
        # what 2 has lost.
        at_once = all(damage.fault is damages[0].fault for damage in damages)
        shrinks = all(set(after.isr) <= set(before.isr) for before, after in pairwise(states))
        return (at_once or shrinks) and all(
            damage.fault.proven and not damage.doubtful and self.observed.complete(damage.at)
            for damage in damages
        )


def _possible_loss(at: Span, fault: FaultFacts) -> IsrDataLoss:
    return IsrDataLoss(before=at.end, certain=False, isr=(), fault=fault)


def isr_data_losses(
    observed: Observed, strikes: Sequence[tuple[Span, FaultFacts]]
) -> Iterator[IsrDataLoss]:
    """Yield the moments at which no member of the ISR had its data.

    Args:
        observed: The observation of the partition.
        strikes: The faults that took data from disks, with the time spans.
    """
    observed = replace(observed, states=tuple(_with_members(observed.states)))
    replicas = _Replicas(observed)
    # A state that was observed within the span of a fault comes after it, because it may be the
    # fault's effect.
    order: list[tuple[int, int, tuple[Span, FaultFacts] | PartitionState]] = sorted(
        [(state.time, 1, state) for state in observed.states]
        + [(span.start, 0, (span, fault)) for span, fault in strikes],
        key=lambda event: event[:2],
    )
    before = None
    for _, _, event in order:
        if isinstance(event, PartitionState):
            yield from replicas.become(before, event)
            before = event
        else:
            yield from replicas.damage_by(*event)
    if observed.observer_lost:
        yield from replicas.unseen()


def _with_members(states: Iterable[PartitionState]) -> Iterator[PartitionState]:
    """Yield the states, each with a non-empty ISR. With KIP-966 the last member also leaves the ISR
    when it stops, and stays eligible. For example, broker A, alone in the ISR, is killed, the ISR
    is empty, and the power of A's host fails. Broker A is elected all the same, and has not caught
    up with any replica."""
    last: tuple[int, ...] = ()
    for state in states:
        last = state.isr or last
        yield replace(state, isr=last)


# --- terms ----------------------------------------------------------------------------------------
#
# The time from which on the acked records of a partition are kept (docs/guarantees.md).
#
# An event that ends the guarantee (an election outside the ISR, a change of leader with acks=1, or
# data taken from every member of the ISR) ends it for all records acked before. The validity window
# of a partition is therefore two times: records acked before the first are not covered, for those
# acked before the second it is unknown, and all later acks are covered.
#
# Acks have the time of a client's clock and are compared with the harness's actions and
# observations. An ack that was given just before an event and recorded just after it must not
# become a violation. Every boundary is therefore moved later by the clock bound, that of a loss by
# the observation lag, and that of an election by the time until a deposed leader has learned of it.


PAUSE_CLIENT = "pause-client"

GIVEN_UP_NS = 12_000_000_000
"""The time after which a client has given up a request without an answer. request.timeout.ms and
socket.timeout.ms of our clients are 5 and 6 s, and librdkafka checks them once a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLimit:
    """A limit of a validity window. Records acked before ``before`` are not covered if ``certain``;
    otherwise it is unknown whether they are."""

    before: int
    certain: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityWindow:
    """The validity window of a guarantee for a partition, in nanoseconds of the Unix epoch.

    Attributes:
        unpromised_before: Acks before this time are not covered.
        unknown_before: For acks before this time, and not before the first, it is unknown.
        unknown_in: It is also unknown for acks recorded in these spans, because a client may have
            been kept from recording them earlier.
        why: The reasons, a sentence each.
    """

    unpromised_before: int = 0
    unknown_before: int = 0
    unknown_in: tuple[Span, ...] = ()
    why: tuple[str, ...] = ()


ALWAYS_VALID = ValidityWindow()


def ack_window(cell: Cell, partition: Partition, around: PartitionSurroundings) -> ValidityWindow:
    """Return the validity window for acked records of one partition."""
    limits = [limit for limit in _limits(cell, partition, around) if limit.before > 0]
    if limits and around.clock_bound_ns is None:
        why = (
            "the clocks of its clients are not known, so it is not known which records "
            "were acked before that"
        )
        limits.append(WindowLimit(before=FOREVER, certain=False, why=why))
    certain = [limit for limit in limits if limit.certain]
    decisive = [max(some, key=lambda limit: limit.before) for some in (certain, limits) if some]
    unknown_before = max((limit.before for limit in limits), default=0)
    return ValidityWindow(
        unpromised_before=max((limit.before for limit in certain), default=0),
        unknown_before=unknown_before,
        unknown_in=tuple(_recorded_late(around, unknown_before)),
        why=tuple(dict.fromkeys(limit.why for limit in decisive)),
    )


def _recorded_late(around: PartitionSurroundings, boundary: int) -> Iterator[Span]:
    """Yield the spans in which a client may have recorded acks that it received before a boundary.

    A paused client records what is in its socket when it continues. A client that is cut off or has
    slow links receives an ack at the latest when it gives up the request.
    """
    for fault in around.faults:
        if not (fault.on_clients and fault.disturbs):
            continue
        if fault.name == PAUSE_CLIENT:
            back, given = fault.start if fault.heal is None else fault.heal, fault.start
            end = around.settled(fault.end)
        else:
            back = given = fault.start
            end = min(fault.end, boundary) + GIVEN_UP_NS
        if given < boundary < end:
            yield Span(max(back, boundary), around.widened(end))


def read_window(cell: Cell, partition: Partition, around: PartitionSurroundings) -> ValidityWindow:
    """Return the validity window for reads of consumers. Whatever ``acks`` is, a read record is
    below the high watermark, so every member of the ISR had it. ``around`` has the clock bound of
    the readers."""
    return ack_window(replace(cell, settings={**cell.settings, "acks": "all"}), partition, around)


def _limits(
    cell: Cell, partition: Partition, around: PartitionSurroundings
) -> Iterator[WindowLimit]:
    faults = tuple(fault for fault in around.faults if fault.touches(partition))
    # A fault that takes unsynced data takes nothing if every record is synced before its ack.
    spared = UNSYNCED if cell.flushes_every_record else None
    not_from_disks = (None, SILENTLY, spared, UNCLEANLY)
    taking = tuple(fault for fault in faults if fault.destroys not in not_from_disks)
    if cell.acks == "0":
        why = "acks=0: the client does not wait for an answer"
        yield WindowLimit(before=FOREVER, certain=True, why=why)
    elif cell.acks == "1":
        yield from _silent_damage(around, faults)
        yield from _unseen(around.observed)
        yield from _leader_changes(around, faults)
        yield from _leaders_data(around, taking)
    else:
        yield from _silent_damage(around, faults)
        if cell.unclean_leader_election:
            yield from _unseen(around.observed)
            yield from unclean_elections(around, faults, Span(0, FOREVER))
        else:
            yield from ordered_elections(around, faults)
        yield from _survivors(around, taking)


def _unseen(observed: Observed) -> Iterator[WindowLimit]:
    """Yield limits for unobserved elections. A guarantee that ends with an election is unknown
    before the first state, and for ever if the observer did not come back."""
    if not observed.states or observed.observer_lost:
        why = "its leader was not observed until the end"
        yield WindowLimit(before=FOREVER, certain=False, why=why)
    elif all(state.leader_epoch == UNKNOWN for state in observed.states):
        # Without epochs, nothing shows that A led, then B, then A again between two observations.
        why = "leader epochs were not observed, so a change of leader may have been missed"
        yield WindowLimit(before=FOREVER, certain=False, why=why)
    else:
        why = "its leader was not observed at the beginning"
        yield WindowLimit(before=observed.states[0].time, certain=False, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A period in which a deposed leader may have continued to answer from its memory.

    Attributes:
        start: The time before which it knew every write.
        seen: The time at which its successor was observed to lead. It never knew later writes.
        end: The time by which it had learned of its successor.
    """

    start: int
    seen: int
    end: int


def stale_spans(partition: Partition, around: PartitionSurroundings) -> Iterator[Stale]:
    """Yield, for each change of leader, the period in which the deposed leader may have answered as
    if nothing had been written since."""
    faults = [fault for fault in around.faults if fault.touches(partition)]
    for before, after, deposed in around.observed.successions():
        if after.leader != before.leader or after.leader_epoch - before.leader_epoch > 1:
            start = max(before.time, after.time - OBSERVATION_LAG_NS)
            if around.observed.blind(Span(before.time, after.time)):
                start = before.time
            start = max(start - (around.clock_bound_ns or 0), 0)
            end = around.heard(after.time, _known(before, after, deposed), faults)
            yield Stale(start=start, seen=around.widened(after.time), end=end)


def _leader_changes(
    around: PartitionSurroundings, faults: Sequence[FaultFacts]
) -> Iterator[WindowLimit]:
    for before, after, deposed in around.observed.successions():
        raised = after.leader_epoch - before.leader_epoch
        # The controller also raises the epoch by one when it removes a stopped follower from the
        # ISR, so the same leader with one epoch more is no change of leader. After two more,
        # another broker (or none) led in between.
        if after.leader == before.leader >= 0 and raised <= 1:
            continue
        if _is_first_leader(before, after):
            continue
        why = f"{_changed(before.leader, after.leader)} (acks=1)"
        yield from _until_heard(around, faults, (before, after, deposed), certain=True, why=why)


def _changed(before: int, after: int) -> str:
    """Return a sentence about how one leader followed another. A negative number stands for none or
    an unknown one."""
    if before < 0 and after < 0:
        return "it had no known leader"
    if before < 0:
        had = "it had no leader" if before == NO_LEADER else "its leader was unknown"
        return f"{had}, then broker-{after} led"
    if after < 0:
        has = "it had no leader" if after == NO_LEADER else "its leader was unknown"
        return f"broker-{before} led, then {has}"
    if before == after:
        return f"broker-{after} led again, and other brokers may have led in between"
    return f"its leader changed from broker-{before} to broker-{after}"


def _is_first_leader(before: PartitionState, after: PartitionState) -> bool:
    """Return whether this is the first leader of a new partition, so that no former leader can go
    on acking. If epoch 1 is observed first, the leader of epoch 0 may."""
    return (before.leader, before.leader_epoch, after.leader_epoch) == (-1, -1, 0)


def _leaders_data(
    around: PartitionSurroundings, faults: Iterable[FaultFacts]
) -> Iterator[WindowLimit]:
    """Yield limits for leaders that lost data. A killed leader still has its acked records in the
    page cache; one that lost its disk has not."""
    for fault in faults:
        struck = data_loss_span(fault)
        if struck is None:
            continue
        leaders = {state.leader for state in around.observed.possible(struck)}
        if fault.brokers is None or not around.observed.complete(struck):
            certain = False
        elif leaders & fault.brokers:
            certain = fault.proven and leaders <= {NO_LEADER, *fault.brokers}
        else:
            continue
        why = f"{fault.taker} took data from its leader's disk (acks=1)"
        yield WindowLimit(before=around.widened(struck.end), certain=certain, why=why)


def ordered_elections(
    around: PartitionSurroundings, faults: Sequence[FaultFacts]
) -> Iterator[WindowLimit]:
    """Yield limits for unclean elections that an administrator ordered although
    unclean.leader.election.enable is off. The administrator has accepted the loss. An election
    before the order, or long after it, is not covered by it."""
    for fault in faults:
        if fault.destroys != UNCLEANLY or not fault.begun:
            continue
        end = min(around.settled(fault.end) + OBSERVATION_LAG_NS, FOREVER)
        ordered = around.observed.widened(Span(fault.start, end))
        if not around.observed.complete(ordered):
            why = f"its leader was not observed when {fault.label} allowed any replica to lead"
            yield WindowLimit(before=around.heard(end, None, faults), certain=False, why=why)
        for limit in unclean_elections(around, faults, ordered):
            yield replace(limit, certain=limit.certain and fault.trusted)


def unclean_elections(
    around: PartitionSurroundings, faults: Sequence[FaultFacts], within: Span
) -> Iterator[WindowLimit]:
    for before, after, deposed in around.observed.successions():
        is_clean = elected_cleanly(before, after, around.observed)
        if is_clean is True or _is_first_leader(before, after):
            continue
        if not within.start <= after.time < within.end:
            continue
        who = f"broker-{after.leader}" if after.leader >= 0 else f"one of {list(after.isr)}"
        why = f"{who} was elected outside the ISR {list(before.isr)} in epoch {after.leader_epoch}"
        if is_clean is None:
            span = f"epochs {before.leader_epoch} and {after.leader_epoch}"
            why = f"an election outside the ISR may have been missed between {span}"
        # A state found after a hole from second 10 to 20 may be from second 11. A record acked in
        # second 15 may have been acked by the leader that was elected then.
        since = replace(after, time=around.observed.not_before(after))
        certain = is_clean is False
        yield from _until_heard(around, faults, (before, since, deposed), certain=certain, why=why)
        yield from _until_heard(around, faults, (before, after, deposed), certain=False, why=why)


def elected_cleanly(
    before: PartitionState, after: PartitionState, observed: Observed
) -> bool | None:
    """Return whether all elections between two states were of members of the ISR, or of eligible
    leader replicas (KIP-966), or None if it is unknown."""
    # If epoch 5 and epoch 7 have leader 1, a replica outside the ISR may have led in epoch 6, and
    # broker 1 has then truncated its log to that one's. An unknown epoch may be any.
    if after.leader_epoch - before.leader_epoch > 1 or before.leader_epoch < 0:
        return None
    # Without a controller an unclean election is two writes. First, epoch 5 has no leader and the
    # ISR [1]. Then epoch 5 still has no leader and the ISR [2]. At last broker 2 leads as the only
    # member of the ISR. A replica that has caught up never joins an ISR without a leader.
    unled = before.leader == after.leader == -1 and before.leader_epoch == after.leader_epoch
    if unled and set(after.isr) - set(before.isr):
        return False
    if after.leader in (before.leader, -1):
        return True
    # The ISR may have shrunk unobserved before the observed election.
    if observed.missed(before, after):
        return None
    return after.leader in (*before.isr, *before.elr)


def _survivors(
    around: PartitionSurroundings, faults: Iterable[FaultFacts]
) -> Iterator[WindowLimit]:
    strikes = [(span, fault) for fault in faults if (span := data_loss_span(fault)) is not None]
    for void in isr_data_losses(around.observed, strikes):
        lost = "took data from the last members of the ISR"
        why = (
            f"{void.fault.taker} {lost} {list(void.isr)} that had it"
            if void.isr
            else f"it was not observed whether {void.fault.taker} {lost} that had it"
        )
        yield WindowLimit(before=around.widened(void.before), certain=void.certain, why=why)


def _silent_damage(
    around: PartitionSurroundings, faults: Iterable[FaultFacts]
) -> Iterator[WindowLimit]:
    """Yield limits for replicas whose synced data was damaged. Such a replica does not know it: it
    leads, and is read and followed, as before. Leaving the ISR and joining again repairs nothing
    below its log end. The damage matters as soon as it leads, and from then on."""
    for fault in faults:
        struck = data_loss_span(fault)
        if struck is None or fault.destroys != SILENTLY:
            continue
        since = Span(struck.start, FOREVER)
        leaders = {state.leader for state in around.observed.during(since)}
        if fault.brokers is not None and leaders & fault.brokers:
            certain = fault.proven
        elif fault.brokers is None or not around.observed.complete(since):
            certain = False
        else:
            continue
        why = f"{fault.label} damaged data that one of its leaders had synced"
        yield WindowLimit(before=around.widened(struck.end), certain=certain, why=why)


def data_loss_span(fault: FaultFacts) -> Span | None:
    """Return the span in which a fault took data from disks, as far as it is known, or None if it
    took none.

    A fault without the event ``injected`` may have taken data until its last row.
    """
    if fault.destroys is None:
        return None
    struck = fault.last if fault.injected is None else fault.injected
    return Span(fault.start - OBSERVATION_LAG_NS, struck + OBSERVATION_LAG_NS)


def _until_heard(
    around: PartitionSurroundings,
    faults: Sequence[FaultFacts],
    change: tuple[PartitionState, PartitionState, int | None],
    *,
    certain: bool,
    why: str,
) -> Iterator[WindowLimit]:
    """Yield the time until which a deposed leader may have continued to acknowledge, once as a
    certain and once as a possible limit.

    ``change`` is a result of :meth:`Observed.successions`. A leader in between that was not
    observed may also have continued, and so may any broker during a fault that the manifest does
    not plan.
    """
    before, after, deposed = change
    known = [fault for fault in faults if fault.trusted] if deposed is not None else ()
    yield WindowLimit(before=around.due(after.time, deposed, known), certain=certain, why=why)
    perhaps = _known(before, after, deposed)
    due = around.due(after.time, perhaps, faults)
    yield WindowLimit(before=due, certain=False, why=why)
    late = around.heard(after.time, perhaps, faults)
    if late > due + around.settle_ns:
        why = "servers had to wait for a processor, and may have learned late of another leader"
    yield WindowLimit(before=late, certain=False, why=why)


def _known(before: PartitionState, after: PartitionState, deposed: int | None) -> int | None:
    """Return the broker that was deposed between two states, or None if it may have been any."""
    return None if after.leader_epoch - before.leader_epoch > 1 else deposed
