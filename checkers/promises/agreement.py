"""Whether the replicas of a partition are promised to hold the same log.

Whatever acks ask for, and whatever was lost: a follower cuts its log where it parts from its
leader's. That it can tell where by leader epochs (KIP-101, KIP-279, KIP-320) asks that who has
appended in an epoch keeps that as long as the epoch lasts. What ends that:

- Data is taken from a disk, and whose it was leads before it is whole. A and C lose power, and A
  what it had not synced; the controller that comes finds A leading in epoch 5, and lets it; A fills
  the same offsets again, in epoch 5, and C, which had synced, keeps what it has. Had B led in epoch
  6 before A was back, A would have been cut to where B began: data was lost, and all the same they
  have to agree.
- Data is changed on a disk: nobody reads it again but who is asked for it.
- An unclean election, before KIP-279: B led in epoch 6 and was never heard of; C leads in epoch 7
  and knows nothing of 6; B has nothing that C could tell it from.

No such thing, and a difference is a broken promise, whenever it came about.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ackproof.checkers.cluster.faults import (
    FOREVER,
    SILENTLY,
    UNCLEANLY,
    UNSYNCED,
    FaultFacts,
    Partition,
)
from ackproof.checkers.cluster.observed import Observed, Span, State
from ackproof.checkers.promises.standing import Standing
from ackproof.checkers.promises.surroundings import Surroundings
from ackproof.checkers.promises.terms import (
    ordered_elections,
    strike,
    unclean_elections,
)
from ackproof.history.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Whether it is promised of a partition, and why not, or perhaps not: a sentence each."""

    standing: Standing = Standing.PROMISED
    why: tuple[str, ...] = ()


def agreement(cell: Cell, partition: Partition, around: Surroundings) -> Agreement:
    """Of one partition."""
    excuses = list(_excuses(cell, partition, around))
    certain = [why for why, proven_ in excuses if proven_]
    if certain:
        return Agreement(standing=Standing.UNPROMISED, why=tuple(dict.fromkeys(certain)))
    if excuses:
        return Agreement(standing=Standing.UNKNOWN, why=tuple(dict(excuses)))
    return Agreement()


def _excuses(cell: Cell, partition: Partition, around: Surroundings) -> Iterator[tuple[str, bool]]:
    """What may excuse it, and whether that is certain."""
    faults = tuple(fault for fault in around.faults if fault.touches(partition))
    spared = UNSYNCED if cell.flushes_every_record else None
    for fault in faults:
        if fault.destroys == SILENTLY:
            yield f"{fault.label} changed what replicas had on their disks", fault.proven
        elif strike(fault) is not None and fault.destroys not in (spared, UNCLEANLY):
            yield from _led_on(around.observed, fault)
    elections = (
        unclean_elections(around, faults, Span(0, FOREVER))
        if cell.unclean_leader_election
        else ordered_elections(around, faults)
    )
    for limit in elections:
        yield limit.why, limit.certain
    if cell.unclean_leader_election and _unseen(around.observed):
        yield "nobody watched all of its elections", False


def _led_on(observed: Observed, fault: FaultFacts) -> Iterator[tuple[str, bool]]:
    """Whether a broker led that data was taken from, after it was started again and before it was
    seen out of the ISR: whoever comes back into it has caught up."""
    why = f"{fault.taker} took data from the disk of one that led before it had caught up"
    back = fault.start if fault.heal is None else fault.heal
    if fault.brokers is None:
        yield why, False
    for broker in fault.brokers or ():
        whole = (span.start for span, state in observed.spans() if _left(broker, span, state, back))
        damaged = Span(back, max(next(whole, FOREVER), back))
        during = observed.during(damaged)
        # Epoch 5 leader B, epoch 7 leader C: in epoch 6 it may have been whoever was damaged.
        jumps = any(
            after.leader_epoch - before.leader_epoch > 1 or before.leader_epoch < 0
            for before, after in pairwise(during)
        )
        if any(state.leader == broker for state in during):
            yield why, fault.proven and not observed.blind(damaged)
        elif jumps or (damaged.start < damaged.end and observed.blind(damaged)):
            yield why, False


def _left(broker: int, span: Span, state: State, since: int) -> bool:
    """Whether a broker was seen out of an ISR in a state that was in force since then. With
    KIP-966 the last member leaves it, too, when it is gone, and stays eligible."""
    return span.end > since and bool(state.isr) and broker not in state.isr


def _unseen(observed: Observed) -> bool:
    """Whether elections may have gone unseen, before the first state or after the last."""
    led_before = not observed.states or observed.states[0].leader_epoch > 0
    return led_before or observed.forsaken
