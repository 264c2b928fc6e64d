"""Validity windows of guarantees: from when on acks are kept and what is shown stays, by the
settings of a partition and by what befell the cluster."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

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
    Span,
    State,
)
from ackproof.checkers.context.surroundings import Surroundings
from ackproof.history.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """No member of ``isr`` is known to have what was acked before ``before``; ``certain``: none
    has. ``fault``: the last that damaged one of them. Nobody in ``isr``: it is not known."""

    before: int
    certain: bool
    isr: tuple[int, ...]
    fault: FaultFacts


@dataclass(slots=True)
class _Damage:
    """Of one replica: by what, when at the latest, and whether it has left the ISR since."""

    fault: FaultFacts
    at: Span
    left: bool = False


@dataclass(slots=True)
class _Replicas:
    """The damaged replicas of a partition, as time goes by."""

    observed: Observed
    damaged: dict[int, _Damage] = field(default_factory=dict)

    def strike(self, at: Span, fault: FaultFacts) -> Iterator[Void]:
        in_force = [state.isr for state in self.observed.during(at)]
        if fault.brokers is None or (fault.brokers and self.observed.blind(at)):
            yield Void(before=at.end, certain=False, isr=(), fault=fault)
        for broker in fault.brokers or ():
            out = bool(in_force) and broker not in in_force[-1]
            self.damaged[broker] = _Damage(fault=fault, at=at, left=out)
        void = [isr for isr in in_force if self._all_damaged(isr)]
        if void:
            # The ISR of that very moment is not known when it changed around it.
            certain = void == in_force and self._seen_since(void[0], at.end)
            yield Void(before=at.end, certain=certain, isr=void[0], fault=fault)

    def become(self, state: State) -> Iterator[Void]:
        for broker, damage in list(self.damaged.items()):
            if broker not in state.isr:
                damage.left = True
            elif damage.left and state.time >= damage.at.end:
                del self.damaged[broker]
            else:
                # Out and in again while it was struck: the loss may have come after.
                damage.left = False
        if self._all_damaged(state.isr):
            latest = max((self.damaged[broker] for broker in state.isr), key=lambda d: d.at.end)
            yield Void(
                before=latest.at.end,
                certain=self._seen_since(state.isr, state.time),
                isr=state.isr,
                fault=latest.fault,
            )

    def _all_damaged(self, isr: Sequence[int]) -> bool:
        return bool(isr) and self.damaged.keys() >= set(isr)

    def _seen_since(self, isr: Sequence[int], until: int) -> bool:
        """Return whether each member is proven to have been damaged, and was watched since then: in
        a hole one of them may have left the ISR and come back whole."""
        since = min(self.damaged[broker].at.start for broker in isr)
        proven = all(self.damaged[broker].fault.proven for broker in isr)
        return proven and not self.observed.blind(Span(since, until))


def voided(observed: Observed, strikes: Sequence[tuple[Span, FaultFacts]]) -> Iterator[Void]:
    """The moments at which no member of the ISR was left with its data.

    Args:
        observed: The partition.
        strikes: Faults that took data from disks, and when.
    """
    observed = replace(observed, states=tuple(_with_members(observed.states)))
    replicas = _Replicas(observed)
    # A state that was seen within a strike's span stands behind it: it may be the fault's doing.
    order: list[tuple[int, int, tuple[Span, FaultFacts] | State]] = sorted(
        [(state.time, 1, state) for state in observed.states]
        + [(span.start, 0, (span, fault)) for span, fault in strikes],
        key=lambda event: event[:2],
    )
    for _, _, event in order:
        if isinstance(event, State):
            yield from replicas.become(event)
        else:
            yield from replicas.strike(*event)


def _with_members(states: Iterable[State]) -> Iterator[State]:
    """The states, each with an ISR of somebody. With KIP-966 the last member leaves it, too, when
    it is gone, and stays eligible: A, alone in the ISR, is killed, the ISR is empty, and power
    fails where A was. A is elected all the same, and has not caught up with anybody meanwhile."""
    last: tuple[int, ...] = ()
    for state in states:
        last = state.isr or last
        yield replace(state, isr=last)


# --- terms ----------------------------------------------------------------------------------------
#
# From what time on the acked records of a partition are promised to be kept (docs/guarantees.md).
#
# Whatever ends the promise (an election outside the ISR, a change of leader under acks=1, data
# taken from every member of the ISR) ends it for all records acked before. So the terms of a
# partition are two times: what was acked before the one is not promised, what was acked before the
# other may or may not have been, and all later acks are promised.
#
# Acks carry a client's clock, and are compared with what the harness did and saw, a moment early or
# late. An ack that was given just before the event, and recorded just after it, must not become a
# broken promise: every boundary is moved later by the clock bound, that of a loss by the
# observation's lag, that of an election by the time until a deposed leader has heard of it.


PAUSE_CLIENT = "pause-client"

GIVEN_UP_NS = 12_000_000_000
"""By then a client has given up a request that was not answered: request.timeout.ms and
socket.timeout.ms are 5 and 6 s of our clients, and are looked at once a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What was acked before ``before`` is not promised (``certain``), or perhaps not."""

    before: int
    certain: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Of a partition; nanoseconds of the Unix epoch.

    Attributes:
        unpromised_before: What was acked earlier is not promised.
        unknown_before: Of what was acked earlier, and not earlier than that, nobody knows.
        unknown_in: Likewise of what is recorded as acked in these spans: a client may have been
            kept from recording it earlier.
        why: The reasons for these, a sentence each.
    """

    unpromised_before: int = 0
    unknown_before: int = 0
    unknown_in: tuple[Span, ...] = ()
    why: tuple[str, ...] = ()


ALL_PROMISED = Terms()


def terms(cell: Cell, partition: Partition, around: Surroundings) -> Terms:
    """The terms of one partition."""
    limits = [limit for limit in _limits(cell, partition, around) if limit.before > 0]
    if limits and around.clock_bound_ns is None:
        why = "the clocks of its clients are not known, so nobody knows what was acked before that"
        limits.append(Limit(before=FOREVER, certain=False, why=why))
    certain = [limit for limit in limits if limit.certain]
    decisive = [max(some, key=lambda limit: limit.before) for some in (certain, limits) if some]
    unknown_before = max((limit.before for limit in limits), default=0)
    return Terms(
        unpromised_before=max((limit.before for limit in certain), default=0),
        unknown_before=unknown_before,
        unknown_in=tuple(_recorded_late(around, unknown_before)),
        why=tuple(dict.fromkeys(limit.why for limit in decisive)),
    )


def _recorded_late(around: Surroundings, boundary: int) -> Iterator[Span]:
    """Yield when a client may have recorded acks that it was given before a boundary.

    A client that is paused records what its socket holds when it goes on. One that is cut off, or
    whose links are slow, is given an ack within the time after which it gives the request up.
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


def shown_terms(cell: Cell, partition: Partition, around: Surroundings) -> Terms:
    """Likewise of what consumers were shown: whatever acks ask for, that is what is below the high
    watermark, and so what every member of the ISR had. ``around``: with the clocks of those who
    were shown it."""
    return terms(replace(cell, settings={**cell.settings, "acks": "all"}), partition, around)


def _limits(cell: Cell, partition: Partition, around: Surroundings) -> Iterator[Limit]:
    faults = tuple(fault for fault in around.faults if fault.touches(partition))
    # What takes the unsynced takes nothing where everything is synced before it is acknowledged.
    spared = UNSYNCED if cell.flushes_every_record else None
    not_from_disks = (None, SILENTLY, spared, UNCLEANLY)
    taking = tuple(fault for fault in faults if fault.destroys not in not_from_disks)
    if cell.acks == "0":
        why = "acks=0: the client does not wait for an answer"
        yield Limit(before=FOREVER, certain=True, why=why)
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


def _unseen(observed: Observed) -> Iterator[Limit]:
    """A promise that ends with an election is unknown where elections could not be seen: before
    the first state, and for ever once the observer did not come back."""
    if not observed.states or observed.forsaken:
        why = "nobody watched who led it until the end"
        yield Limit(before=FOREVER, certain=False, why=why)
    elif all(state.leader_epoch == UNKNOWN for state in observed.states):
        # A leads, then B, then A, between two looks: without epochs nothing shows that.
        why = "leader epochs were not told, so that a change of leader may have gone unseen"
        yield Limit(before=FOREVER, certain=False, why=why)
    else:
        why = "nobody watched who led it in the beginning"
        yield Limit(before=observed.states[0].time, certain=False, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """When a leader that was deposed may have gone on telling what it knew.

    Attributes:
        start: What was written before, it knew.
        seen: When its successor was seen to lead: what was asked for later, it never knew.
        end: When it had heard of that.
    """

    start: int
    seen: int
    end: int


def stale_spans(partition: Partition, around: Surroundings) -> Iterator[Stale]:
    """Yield when a deposed leader may have gone on telling what it knew, for each change of leader,
    as if nothing had been written since."""
    faults = [fault for fault in around.faults if fault.touches(partition)]
    for before, after, deposed in around.observed.successions():
        if after.leader != before.leader or after.leader_epoch - before.leader_epoch > 1:
            start = max(before.time, after.time - OBSERVATION_LAG_NS)
            if around.observed.blind(Span(before.time, after.time)):
                start = before.time
            start = max(start - (around.clock_bound_ns or 0), 0)
            end = around.heard(after.time, _known(before, after, deposed), faults)
            yield Stale(start=start, seen=around.widened(after.time), end=end)


def _leader_changes(around: Surroundings, faults: Sequence[FaultFacts]) -> Iterator[Limit]:
    for before, after, deposed in around.observed.successions():
        raised = after.leader_epoch - before.leader_epoch
        # The controller raises the epoch by one, too, when it takes a dead follower out of the
        # ISR: the same leader and one epoch more is no change of leader. Two more, and somebody
        # else (or nobody) led in between.
        if after.leader == before.leader >= 0 and raised <= 1:
            continue
        if _led_for_the_first_time(before, after):
            continue
        why = f"{_changed(before.leader, after.leader)} (acks=1)"
        yield from _until_heard(around, faults, (before, after, deposed), certain=True, why=why)


def _changed(before: int, after: int) -> str:
    """Return in words how one leader followed another; a negative number is none, or unknown."""
    if before < 0 and after < 0:
        return "it had no leader that is known"
    if before < 0:
        had = "it had no leader" if before == NO_LEADER else "its leader was unknown"
        return f"{had}, then broker-{after} led"
    if after < 0:
        has = "it had no leader" if after == NO_LEADER else "its leader was unknown"
        return f"broker-{before} led, then {has}"
    if before == after:
        return f"broker-{after} led again, and others may have led in between"
    return f"its leader changed from broker-{before} to broker-{after}"


def _led_for_the_first_time(before: State, after: State) -> bool:
    """Of a new partition: nobody led before who could go on acking. Epoch 1 at first sight is
    another matter: whoever led in epoch 0 may."""
    return (before.leader, before.leader_epoch, after.leader_epoch) == (-1, -1, 0)


def _leaders_data(around: Surroundings, faults: Iterable[FaultFacts]) -> Iterator[Limit]:
    """A killed leader has what it acked in the page cache; one that lost its disk has not."""
    for fault in faults:
        struck = strike(fault)
        if struck is None:
            continue
        leaders = {state.leader for state in around.observed.during(struck)}
        if fault.brokers is None or around.observed.blind(struck):
            certain = False
        elif leaders & fault.brokers:
            certain = fault.proven
        else:
            continue
        why = f"{fault.taker} took data from its leader's disk (acks=1)"
        yield Limit(before=around.widened(struck.end), certain=certain, why=why)


def ordered_elections(around: Surroundings, faults: Sequence[FaultFacts]) -> Iterator[Limit]:
    """Where unclean.leader.election.enable is off, an administrator who orders an unclean election
    has chosen the loss. One that came before the order, or long after it, is the brokers' own."""
    for fault in faults:
        if fault.destroys != UNCLEANLY or not fault.begun:
            continue
        end = min(around.settled(fault.end) + OBSERVATION_LAG_NS, FOREVER)
        ordered = Span(fault.start, end)
        if around.observed.blind(ordered):
            why = f"nobody watched who led it when {fault.label} let anybody lead"
            yield Limit(before=around.heard(end, None, faults), certain=False, why=why)
        for limit in unclean_elections(around, faults, ordered):
            yield replace(limit, certain=limit.certain and fault.trusted)


def unclean_elections(
    around: Surroundings, faults: Sequence[FaultFacts], within: Span
) -> Iterator[Limit]:
    for before, after, deposed in around.observed.successions():
        is_clean = clean(before, after, around.observed)
        if is_clean is True or _led_for_the_first_time(before, after):
            continue
        if not within.start <= after.time < within.end:
            continue
        who = f"broker-{after.leader}" if after.leader >= 0 else f"one of {list(after.isr)}"
        why = f"{who} was elected outside the ISR {list(before.isr)} in epoch {after.leader_epoch}"
        if is_clean is None:
            span = f"epochs {before.leader_epoch} and {after.leader_epoch}"
            why = f"an election outside the ISR may have gone unseen between {span}"
        # Found after a hole from 10 to 20, it may be of second 11, and what was acked in second 15
        # have been acked by the one that was elected.
        since = replace(after, time=around.observed.not_before(after))
        certain = is_clean is False
        yield from _until_heard(around, faults, (before, since, deposed), certain=certain, why=why)
        yield from _until_heard(around, faults, (before, after, deposed), certain=False, why=why)


def clean(before: State, after: State, observed: Observed) -> bool | None:
    """Whether all elections between two states were of members of the ISR; None: nobody knows."""
    # Epoch 5 leader 1, epoch 7 leader 1: in epoch 6 a replica outside the ISR may have led, and 1
    # has then cut its log to that one's. An epoch that was not told may be any.
    if after.leader_epoch - before.leader_epoch > 1 or before.leader_epoch < 0:
        return None
    # Without a controller an unclean election is two writes: epoch 5, nobody leads, the ISR is 1;
    # still 5, still nobody, the ISR is 2; then 2 leads, being the ISR. Nobody who has caught up
    # comes into an ISR that nobody leads.
    unled = before.leader == after.leader == -1 and before.leader_epoch == after.leader_epoch
    if unled and set(after.isr) - set(before.isr):
        return False
    if after.leader in (before.leader, -1):
        return True
    # The ISR may have shrunk unseen before the election that was seen.
    if observed.missed(before, after):
        return None
    return after.leader in before.isr


def _survivors(around: Surroundings, faults: Iterable[FaultFacts]) -> Iterator[Limit]:
    strikes = [(span, fault) for fault in faults if (span := strike(fault)) is not None]
    for void in voided(around.observed, strikes):
        lost = "took data from the last of the ISR"
        why = (
            f"{void.fault.taker} {lost} {list(void.isr)} that had it"
            if void.isr
            else f"nobody watched whether {void.fault.taker} {lost} that had it"
        )
        yield Limit(before=around.widened(void.before), certain=void.certain, why=why)


def _silent_damage(around: Surroundings, faults: Iterable[FaultFacts]) -> Iterator[Limit]:
    """A replica whose synced data was damaged does not know it: it leads, is read from and followed
    as before, and to leave the ISR and come back mends nothing below its log end. It matters as
    soon as it leads, and for good."""
    for fault in faults:
        struck = strike(fault)
        if struck is None or fault.destroys != SILENTLY:
            continue
        since = Span(struck.start, FOREVER)
        leaders = {state.leader for state in around.observed.during(since)}
        if fault.brokers is not None and leaders & fault.brokers:
            certain = fault.proven
        elif fault.brokers is None or around.observed.blind(since):
            certain = False
        else:
            continue
        why = f"{fault.label} damaged what one that led it had synced"
        yield Limit(before=around.widened(struck.end), certain=certain, why=why)


def strike(fault: FaultFacts) -> Span | None:
    """When a fault took data from disks, as far as observations tell it; None: it did not.

    One that never got to ``injected`` may have done so until its last row.
    """
    if fault.destroys is None:
        return None
    struck = fault.last if fault.injected is None else fault.injected
    return Span(fault.start - OBSERVATION_LAG_NS, struck + OBSERVATION_LAG_NS)


def _until_heard(
    around: Surroundings,
    faults: Sequence[FaultFacts],
    change: tuple[State, State, int | None],
    *,
    certain: bool,
    why: str,
) -> Iterator[Limit]:
    """Yield until when a deposed leader may have gone on acknowledging, and may have perhaps.

    ``change``: as from :meth:`Observed.successions`. Whom nobody saw lead in between may have gone
    on, too, and so may anybody while a fault was on that the manifest does not plan.
    """
    before, after, deposed = change
    known = [fault for fault in faults if fault.trusted] if deposed is not None else ()
    yield Limit(before=around.due(after.time, deposed, known), certain=certain, why=why)
    perhaps = _known(before, after, deposed)
    due = around.due(after.time, perhaps, faults)
    yield Limit(before=due, certain=False, why=why)
    late = around.heard(after.time, perhaps, faults)
    if late > due + around.settle_ns:
        why = "servers had to wait for a processor, and may have heard late of another leader"
    yield Limit(before=late, certain=False, why=why)


def _known(before: State, after: State, deposed: int | None) -> int | None:
    """Return the broker that was deposed between two states; None: it may have been any."""
    return None if after.leader_epoch - before.leader_epoch > 1 else deposed
