"""Root causes of divergent replicas, from the offsets and epochs at which their raw logs differ.

A follower truncates its log where it diverges from its leader's, and fetches from there on. A
record of an earlier epoch than the other replica's was therefore not truncated when it should have
been. A difference within one epoch comes from two writers in it, or from a later change. A missing
record was taken from the disk, or truncated and not fetched again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ackproof.checkers.checks.catalogue import DIVERGENT
from ackproof.checkers.checks.replicas import DivergentRange
from ackproof.checkers.context.broker_logs import ReplicaTruncation
from ackproof.checkers.root_cause.causes import CauseKey, reported
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import RootCauses
from ackproof.checkers.root_cause.narratives import labels, truncation_phrase
from ackproof.checkers.root_cause.partition_context import ContextFault, PartitionContext
from ackproof.checkers.root_cause.rows import of_rows
from ackproof.checkers.verdict import Cause

_NO_EPOCH = -1


class DivergenceNarrative(NamedTuple):
    """The way in which two logs came to differ.

    Attributes:
        kind: The kind of the cause.
        one, other: The brokers.
        epochs: The epochs of what each holds where they begin to differ, or -1 for nothing.
        strange: The broker that holds what it should not, or lacks what it should have; None if
            that is unknown.
    """

    kind: CauseKind
    one: int
    other: int
    epochs: tuple[int, int]
    strange: int | None


@dataclass(slots=True)
class _Range:
    """The offsets of all divergences with one narrative."""

    number: int
    offsets: int = 0
    first: int = -1
    last: int = -1

    def add(self, parting: DivergentRange) -> None:
        difference = parting.difference
        self.offsets += difference.last - difference.first + 1
        self.first = difference.first if self.first < 0 else min(self.first, difference.first)
        self.last = max(self.last, difference.last)


@dataclass(slots=True, kw_only=True)
class DivergenceCauses:
    """The root causes of the divergences of one partition's replicas. Divergences arrive in groups,
    and only their narratives are kept. ``promised`` says whether the replicas are guaranteed to
    agree."""

    context: PartitionContext
    cell: str
    topic: str
    partition: int
    run: int = 1
    promised: bool = False
    _narratives: dict[DivergenceNarrative, _Range] = field(default_factory=dict)

    def performed(self, divergent_ranges: Sequence[DivergentRange]) -> RootCauses:
        """Return the rows of these divergences. Their causes are reported after all of them have
        come."""
        return RootCauses(
            of_records=of_rows([self._row(one) for one in divergent_ranges]), causes=()
        )

    def causes(self) -> list[Cause]:
        """Return the causes that are reported."""
        return reported(
            [self._cause(narrative, range_) for narrative, range_ in self._narratives.items()]
        )

    def _row(self, parting: DivergentRange) -> dict[str, Any]:
        narrative = explained(parting, self.context)
        if narrative not in self._narratives:
            self._narratives[narrative] = _Range(number=len(self._narratives) + 1)
        self._narratives[narrative].add(parting)
        brokers, sides = [parting.one, parting.other], parting.difference.sides
        truncations = _last_truncations(self.context)
        leaders = {term.epoch: term.leader for term in self.context.leadership_terms}
        return {
            "cause": self._narratives[narrative].number,
            "kind": narrative.kind.value,
            "brokers": brokers,
            "last_offset": parting.difference.last,
            "epochs": [side and side.leader_epoch for side in sides],
            "leaders": [side and leaders.get(side.leader_epoch) for side in sides],
            "crcs": [side and side.crc for side in sides],
            "cut_to": [truncations[who].offset if who in truncations else None for who in brokers],
        }

    def _cause(self, narrative: DivergenceNarrative, found: _Range) -> Cause:
        place = CauseKey(self.run, self.cell, DIVERGENT, self.topic, self.partition)
        leaders = {term.epoch: term.leader for term in self.context.leadership_terms}
        epochs = tuple(sorted({epoch for epoch in narrative.epochs if epoch != _NO_EPOCH}))
        disks = _disks(narrative.strange, self.context) if _is_of_disks(narrative.kind) else []
        return Cause(
            **place._asdict(),
            number=found.number,
            kind=narrative.kind.value,
            sentence=sentence(narrative, found.first, self.context),
            records=found.offsets,
            promised=found.offsets if self.promised else 0,
            first_offset=found.first,
            last_offset=found.last,
            leaders=tuple(dict.fromkeys(leaders[one] for one in epochs if one in leaders)),
            epochs=epochs,
            faults=tuple(fault.label for fault in disks),
        )


def explained(parting: DivergentRange, context: PartitionContext) -> DivergenceNarrative:
    """Return how a divergence came about, as far as it is known."""
    one, other = parting.difference.sides
    epochs = (
        _NO_EPOCH if one is None else one.leader_epoch,
        _NO_EPOCH if other is None else other.leader_epoch,
    )
    if one is None or other is None:
        strange: int | None = parting.one if one is None else parting.other
    elif not (one.intact and other.intact):
        strange = parting.other if one.intact else parting.one
    elif epochs[0] != epochs[1]:
        strange = parting.one if epochs[0] < epochs[1] else parting.other
    else:
        strange = None
    kind = _kind(parting, strange, context)
    return DivergenceNarrative(kind, parting.one, parting.other, epochs, strange)


def _kind(parting: DivergentRange, strange: int | None, context: PartitionContext) -> CauseKind:
    one, other = parting.difference.sides
    if one is None or other is None:
        return _lacking(parting, strange, context)
    if not (one.intact and other.intact):
        return CauseKind.DAMAGED if _disks(strange, context) else CauseKind.UNEXPLAINED
    if strange is None:
        return _of_one_epoch(one.leader_epoch, context)
    if strange not in context.logged_brokers:
        return CauseKind.UNKNOWN
    since = max(one.leader_epoch, other.leader_epoch)
    reached = (
        truncation.offset <= parting.difference.first
        for truncation in context.truncations
        if truncation.broker == strange and truncation.leader_epoch >= since
    )
    return CauseKind.UNEXPLAINED if any(reached) else CauseKind.NOT_TRUNCATED


def _lacking(parting: DivergentRange, strange: int | None, context: PartitionContext) -> CauseKind:
    if _disks(strange, context):
        return CauseKind.LOST_FROM_DISK
    truncation = _last_truncations(context).get(-1 if strange is None else strange)
    if truncation is not None and truncation.offset <= parting.difference.first:
        return CauseKind.NOT_FETCHED
    return CauseKind.UNEXPLAINED if strange in context.logged_brokers else CauseKind.UNKNOWN


def _of_one_epoch(epoch: int, context: PartitionContext) -> CauseKind:
    """Return the kind if both replicas hold intact but different batches of one epoch."""
    if epoch in context.contended:
        return CauseKind.TWO_LEADERS
    leaders = [term.leader for term in context.leadership_terms if term.epoch == epoch]
    if not leaders:
        return CauseKind.UNKNOWN
    return CauseKind.REFILLED if _disks(leaders[0], context) else CauseKind.UNEXPLAINED


def _is_of_disks(kind: CauseKind) -> bool:
    return kind in (CauseKind.LOST_FROM_DISK, CauseKind.DAMAGED, CauseKind.REFILLED)


def _disks(broker: int | None, context: PartitionContext) -> list[ContextFault]:
    """Return the faults that took or changed data on the broker's disk."""
    if broker is None:
        return []
    return [fault for fault in context.faults if fault.took >= 0 and fault.affected(broker)]


def _last_truncations(context: PartitionContext) -> dict[int, ReplicaTruncation]:
    """Return the last truncation that each broker reports."""
    return {truncation.broker: truncation for truncation in context.truncations}


# --- words --------------------------------------------------------------------------------------


def sentence(narrative: DivergenceNarrative, first: int, context: PartitionContext) -> str:
    """Return a sentence about these offsets, of which ``first`` is the lowest."""
    return "; ".join(_parts(narrative, first, context)) + "."


def _parts(narrative: DivergenceNarrative, first: int, context: PartitionContext) -> Iterator[str]:
    yield _held(narrative, first)
    match narrative.kind:
        case CauseKind.LOST_FROM_DISK:
            took = labels(_disks(narrative.strange, context))
            yield f"{took} took data from the disk of broker-{narrative.strange}"
        case CauseKind.DAMAGED:
            changed = labels(_disks(narrative.strange, context))
            yield (
                f"the CRC of broker-{narrative.strange}'s record does not match: {changed} "
                "was on its disk"
            )
        case CauseKind.REFILLED:
            leader = next(
                one.leader for one in context.leadership_terms if one.epoch == narrative.epochs[0]
            )
            took = labels(_disks(leader, context))
            yield (
                f"{took} took data from the disk of broker-{leader}, which led epoch "
                f"{narrative.epochs[0]} and filled these offsets again"
            )
        case CauseKind.TWO_LEADERS:
            yield f"according to the brokers' own logs, two brokers led epoch {narrative.epochs[0]}"
        case CauseKind.NOT_TRUNCATED:
            later = max(narrative.epochs)
            yield (
                f"broker-{narrative.strange} did not truncate its log there when epoch "
                f"{later} had begun"
            )
        case CauseKind.NOT_FETCHED:
            yield (
                f"broker-{narrative.strange} did not fetch again the records that it had truncated"
            )
        case _:
            pass
    yield from _truncation(narrative, context)
    if narrative.kind is CauseKind.UNEXPLAINED:
        yield "nothing in the history explains it"
    elif narrative.kind is CauseKind.UNKNOWN:
        yield "the cause is unknown: no broker's log mentions it"


def _held(narrative: DivergenceNarrative, first: int) -> str:
    where = f"from offset {first:,} onwards"
    if narrative.strange is not None and _NO_EPOCH in narrative.epochs:
        holder = narrative.other if narrative.strange == narrative.one else narrative.one
        held = max(narrative.epochs)
        return (
            f"{where} broker-{narrative.strange} lacks the records of epoch {held} that "
            f"broker-{holder} holds"
        )
    one, other = narrative.epochs
    if one == other:
        both = f"broker-{narrative.one} and broker-{narrative.other}"
        return f"{both} hold different records of epoch {one} {where}"
    return (
        f"{where} broker-{narrative.one} holds records of epoch {one}, and "
        f"broker-{narrative.other} holds records of epoch {other}"
    )


def _truncation(narrative: DivergenceNarrative, context: PartitionContext) -> Iterator[str]:
    """Yield the last truncation of each broker. A broker without one is mentioned only if its log
    was collected."""
    truncations = _last_truncations(context)
    for broker in (narrative.one, narrative.other):
        if broker in truncations:
            yield f"broker-{broker} last {truncation_phrase(truncations[broker])}"
    silent = [
        who
        for who in (narrative.one, narrative.other)
        if who in context.logged_brokers and who not in truncations
    ]
    if silent:
        names = " nor ".join(f"broker-{who}" for who in silent)
        neither = "neither " if len(silent) > 1 else ""
        yield f"{neither}{names} logged {'a' if neither else 'no'} truncation"
