"""Whether the replicas of a partition are promised to hold the same log.

Whatever acks ask for, and whatever was lost: a follower cuts its log where it parts from its
leader's. That it can tell where by leader epochs (KIP-101, KIP-279, KIP-320) asks that who has
appended in an epoch keeps that as long as the epoch lasts. What ends that:

- Data is taken from a disk. A and C lose power, and A what it had not synced; the controller that
  comes finds A leading in epoch 5, and lets it; A fills the same offsets again, in epoch 5, and C,
  which had synced, keeps what it has.
- Data is changed on a disk: nobody reads it again but who is asked for it.
- An unclean election, before KIP-279: B led in epoch 6 and was never heard of; C leads in epoch 7
  and knows nothing of 6; B has nothing that C could tell it from.

No such thing, and a difference is a broken promise, whenever it came about.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from checkers.cluster.faults import FOREVER, UNCLEANLY, UNSYNCED, Partition
from checkers.cluster.observed import Observed, Span
from checkers.promises.standing import Standing
from checkers.promises.terms import (
    Surroundings,
    ordered_elections,
    proven,
    strike,
    unclean_elections,
)
from history.cell import Cell


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
        if strike(fault) is not None and fault.destroys not in (spared, UNCLEANLY):
            why = f"{fault.label} took or changed what replicas had on their disks"
            yield why, proven(fault)
    elections = (
        unclean_elections(around, faults, Span(0, FOREVER))
        if cell.unclean_leader_election
        else ordered_elections(around, faults)
    )
    for limit in elections:
        yield limit.why, limit.certain
    if cell.unclean_leader_election and _unseen(around.observed):
        yield "nobody watched all of its elections", False


def _unseen(observed: Observed) -> bool:
    """Whether elections may have gone unseen, before the first state or after the last."""
    led_before = not observed.states or observed.states[0].leader_epoch > 0
    return led_before or observed.forsaken
