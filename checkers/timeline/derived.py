"""What follows from a partition's observed timeline, before any ack is looked at."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ackproof.checkers.cluster.faults import FaultFacts, Partition
from ackproof.checkers.cluster.observed import ALWAYS, Observed, Span
from ackproof.checkers.promises.surroundings import Surroundings
from ackproof.checkers.promises.terms import strike
from ackproof.checkers.timeline.known import Timeline, Told
from ackproof.checkers.timeline.seen import Seen
from ackproof.checkers.timeline.thin import thin
from ackproof.checkers.timeline.words import Word
from ackproof.history.cell import Cell

EPOCH_REGRESSED = "epoch-regressed"
TWO_LEADERS = "two-leaders"
_NOWHERE = -1
_UNKNOWN_TIME = -1


def timeline(
    cell: Cell,
    partition: Partition,
    around: Surroundings,
    words: Sequence[Word],
    *,
    ensemble: bool,
) -> Timeline:
    """Return what follows from the states of one partition.

    Args:
        words: What its brokers said.
        ensemble: Whether ZooKeeper is, or may be, several servers.
    """
    if ALWAYS in around.observed.holes:
        # By what brokers say alone: of states, any that are missing may have come between others.
        told = [*_regressed(Observed(), words), *_two_leaders(Observed(), words)]
        return Timeline(acks=cell.acks, spoken=bool(words), told=told)
    faults = tuple(fault for fault in around.faults if fault.touches(partition))
    seen = Seen(around=around, faults=faults, ensemble=ensemble)
    epochs = sorted({state.leader_epoch for state in around.observed.states} - {-1, -2})
    return Timeline(
        acks=cell.acks,
        clock_bound_ns=around.clock_bound_ns,
        disks_kept=not any(map(_takes_or_changes, faults)),
        epochs=epochs,
        elected_after=[seen.elected_after(epoch) for epoch in epochs],
        deposed=[seen.deposed(epoch) for epoch in epochs],
        log_ends=[_log_end(epoch, words) for epoch in epochs],
        watched_until=seen.watched_until(),
        thin=thin(cell, seen),
        watched=seen.watched,
        versioned=seen.versioned,
        spoken=bool(words),
        told=[*_regressed(around.observed, words), *_two_leaders(around.observed, words)],
    )


def _takes_or_changes(fault: FaultFacts) -> bool:
    return strike(fault) is not None and fault.destroys != "unclean"


def _regressed(observed: Observed, words: Sequence[Word]) -> Iterator[Told]:
    """Leader epochs that went back, in ZooKeeper or at a broker."""
    for before, after in observed.changes():
        # In a session ZooKeeper never shows an older state; in a new one another server may.
        blind = observed.blind(Span(before.time, after.time + 1))
        if 0 <= after.leader_epoch < before.leader_epoch and not blind:
            epochs = f"from {before.leader_epoch} to {after.leader_epoch}"
            detail = f"ZooKeeper's leader epoch went back {epochs}"
            yield Told(anomaly=EPOCH_REGRESSED, time=after.time, detail=detail)
    highest: dict[tuple[int, int], int] = {}
    for word in words:
        process = word.broker, word.life
        if 0 <= word.leader_epoch < highest.get(process, -1):
            epochs = f"epoch {word.leader_epoch} after epoch {highest[process]}"
            detail = f"broker-{word.broker} took a role in {epochs}"
            yield Told(anomaly=EPOCH_REGRESSED, time=_UNKNOWN_TIME, detail=detail)
        highest[process] = max(word.leader_epoch, highest.get(process, -1))


def _two_leaders(observed: Observed, words: Sequence[Word]) -> Iterator[Told]:
    """Epochs with several leaders, by ZooKeeper and by the brokers' own word."""
    leaders: dict[int, dict[int, str]] = defaultdict(dict)
    since: dict[int, int] = {}
    for state in observed.states:
        # Of two znodes leader and epoch may be of two moments, and nobody has led so.
        if state.by_controller and state.leader >= 0 and state.leader_epoch >= 0:
            leaders[state.leader_epoch].setdefault(state.leader, "by ZooKeeper")
            since[state.leader_epoch] = state.time
    for word in words:
        if word.leads and word.leader_epoch >= 0:
            leaders[word.leader_epoch].setdefault(word.broker, "by its own word")
    for epoch, those in sorted(leaders.items()):
        if len(those) > 1:
            who = " and ".join(f"broker-{b} ({how})" for b, how in sorted(those.items()))
            time = since.get(epoch, _UNKNOWN_TIME)
            yield Told(anomaly=TWO_LEADERS, time=time, detail=f"{who} led in epoch {epoch}")


def _log_end(epoch: int, words: Sequence[Word]) -> int:
    """Where the log of the epoch's leader ended when it said first that it leads."""
    said = [word for word in words if word.leads and word.leader_epoch == epoch]
    if len({word.broker for word in said}) != 1 or said[0].log_end is None:
        return _NOWHERE
    return said[0].log_end
