"""The narrative of missing records: what explains them, and the sentence that says it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.broker_logs import ReplicaTruncation
from ackproof.checkers.root_cause.attribution import LOG_END_UNKNOWN, LostRecords, NarrativeGroup
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.partition_context import (
    ContextFault,
    IsrExpansion,
    LeadershipTerm,
    PartitionContext,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrative:
    """The narrative of a group of records.

    Attributes:
        kind: The kind of the cause.
        records: Their places in :class:`LostRecords`.
        offsets: The first and last offset, or None if the clients received none.
        times: The time of the first and of the last ack, or of the sends if there was none.
        epochs: The leadership terms one of which acked them; empty if unknown.
        next: The term of the leader that came without them.
        unaware: The terms before that one whose leader never learned of its election.
        untold: Whether a later leader with an unknown log end may have come without them.
        late: By how much the last was acked after ``deposed_by`` was first observed, for clocks
            that differ by as much as possible; nanoseconds, or None if unknown.
        without_session: The same time after the end of the registration of their leader was
            observed.
        faults: The faults that were active on their leader, or at all, until then.
        disks: The faults that took data from relevant disks.
        truncations: The truncations that removed them.
        truncation_before: The truncation by which the next leader had discarded them.
        isr_expansion: The expansion of the ISR by the next leader, if the leader that added it had
            them.
        expanding_term: The term in which that happened.
        shown: Whether consumers read them, and the times are those of the reads. Otherwise they
            were acked.
        committed: The term whose leader had a high watermark beyond them when it began.
        purged: Whether their client is known to reuse the numbers of records that it purges with an
            aborted transaction.
    """

    kind: CauseKind
    records: Array
    offsets: tuple[int, int] | None
    times: tuple[int, int]
    epochs: Sequence[LeadershipTerm] = ()
    next: LeadershipTerm | None = None
    unaware: Sequence[LeadershipTerm] = ()
    untold: bool = False
    late: int | None = None
    without_session: int | None = None
    faults: Sequence[ContextFault] = ()
    disks: Sequence[ContextFault] = ()
    truncations: Sequence[ReplicaTruncation] = field(default_factory=tuple)
    truncation_before: ReplicaTruncation | None = None
    isr_expansion: IsrExpansion | None = None
    expanding_term: LeadershipTerm | None = None
    shown: bool = False
    committed: LeadershipTerm | None = None
    purged: bool = False

    @property
    def leaders(self) -> list[int]:
        """The brokers that may have acked them."""
        return list(dict.fromkeys(term.leader for term in self.epochs))

    @property
    def deposed_by(self) -> LeadershipTerm | None:
        """The first term to which another leader was elected, whether or not it learned of that, or
        else the next leader's term."""
        others = (term for term in self.unaware if term.leader not in self.leaders)
        return next(others, self.next)


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrativeFacts:
    """Further facts for a narrative.

    Attributes:
        acks: The ``acks`` of the cell.
        watched: Whether the partition's leaders were observed until the end.
        bound: The clock bound of the clients that received the acks, or None if unknown.
        log_start: The start of the final log, or NONE if unknown.
        deleted_by: When records below it were seen to be deleted that retention had to keep, at
            the latest, or NONE. No other records below it are lost then.
    """

    acks: str
    watched: bool
    bound: int | None
    log_start: int
    deleted_by: int


def narrative(
    group: NarrativeGroup, lost: LostRecords, context: PartitionContext, around: NarrativeFacts
) -> Narrative:
    """Return the narrative of a group."""
    offset, time = lost.offset[group.records], lost.time[group.records]
    known_offsets = offset[offset != NONE]
    epochs = context.leadership_terms[group.first : group.last + 1] if group.first >= 0 else ()
    between = context.leadership_terms[group.last + 1 : group.after] if group.first >= 0 else ()
    result = Narrative(
        kind=CauseKind.UNKNOWN,
        records=group.records,
        offsets=(int(known_offsets.min()), int(known_offsets.max()))
        if len(known_offsets)
        else None,
        times=(int(time.min()), int(time.max())),
        epochs=[term for term in epochs if not term.unaware],
        unaware=[term for term in between if term.unaware] if group.after >= 0 else (),
        next=context.leadership_terms[group.after] if group.after >= 0 else None,
        untold=group.after == LOG_END_UNKNOWN,
    )
    if result.offsets is not None and result.offsets[1] < around.log_start:
        if around.deleted_by == NONE:
            return replace(result, kind=CauseKind.BELOW_LOG_START)
        on = faults_on(context, result.times[0], around.deleted_by, result.leaders)
        return replace(result, kind=CauseKind.DELETED_TOO_EARLY, faults=on)
    if not context.leadership_terms or result.untold:
        return replace(result, faults=_faults(result, context))
    result = replace(
        result,
        late=_late(result, around.bound),
        without_session=_without_session(result, context, around.bound),
        faults=_faults(result, context),
        disks=list(_disks(result, context, around.acks)),
        truncations=list(_truncations(result, context)),
        truncation_before=_truncation_before(result, context),
    )
    result = _with_isr_expansion(result, context)
    return replace(result, kind=_kind(result, around.acks, watched=around.watched))


def _kind(narrative: Narrative, acks: str, *, watched: bool) -> CauseKind:
    """Return the first kind that applies. A deposed leader that acks alone loses these records,
    whatever was elected and whatever happened to disks."""
    after = narrative.next
    if acks == "0" and narrative.offsets is None:
        return CauseKind.UNANSWERED
    if len(narrative.leaders) > 1:
        return CauseKind.UNKNOWN
    if after is None and narrative.disks and narrative.epochs:
        return CauseKind.LOST_FROM_DISK
    if after is None:
        return CauseKind.UNEXPLAINED if watched else CauseKind.UNKNOWN
    if narrative.late is not None and narrative.late > 0 and after.leader not in narrative.leaders:
        return CauseKind.DEPOSED_LEADER
    if (known := _known_way(narrative)) is not None:
        return known
    if acks != "all" and after.leader not in narrative.leaders:
        return CauseKind.NOT_REPLICATED
    return CauseKind.UNKNOWN if after.clean is None else CauseKind.UNEXPLAINED


def _known_way(narrative: Narrative) -> CauseKind | None:
    """Return the way in which the next leader came to be without them, whatever ``acks`` is."""
    if narrative.next is not None and narrative.next.clean is False:
        return CauseKind.UNCLEAN_ELECTION
    if narrative.disks:
        return CauseKind.LOST_FROM_DISK
    if narrative.truncation_before is not None:
        return CauseKind.TRUNCATED_BEFORE_LEADING
    return None if narrative.isr_expansion is None else CauseKind.ISR_EXPANDED_TOO_EARLY


def _late(narrative: Narrative, bound: int | None) -> int | None:
    another = narrative.deposed_by
    if another is None or another.seen < 0 or bound is None:
        return None
    return narrative.times[1] - another.seen - bound


def _without_session(
    narrative: Narrative, context: PartitionContext, bound: int | None
) -> int | None:
    """Return the time since the end of the last session that ended before the last ack, if there
    was no session at the first ack."""
    first, last = narrative.times
    found = [
        one
        for one in context.absences
        if one.broker in narrative.leaders and one.since < last and one.until > first
    ]
    since = max((one.since for one in found), default=None)
    return None if since is None or bound is None else last - since - bound


def _faults(narrative: Narrative, context: PartitionContext) -> list[ContextFault]:
    """Return the faults that were active before the next leader was observed and not over at the
    first ack. If any of them affected their leader, return only those."""
    first, last = narrative.times
    until = max(last, narrative.next.seen) if narrative.next else last
    return faults_on(context, first, until, narrative.leaders)


def faults_on(
    context: PartitionContext, first: int, last: int, brokers: Sequence[int]
) -> list[ContextFault]:
    """Return the faults that were active at some time from ``first`` to ``last``. If any of them
    affected these brokers, return only those."""
    on = [fault for fault in context.faults if fault.start <= last and fault.end >= first]
    own = [fault for fault in on if any(map(fault.affected, brokers))]
    return own or on


def _disks(narrative: Narrative, context: PartitionContext, acks: str) -> Iterator[ContextFault]:
    """Yield the faults that took data after the first ack: from the next leader's disk before it
    led, or from their leader's disk if there is no next leader. With acks=1 another broker may
    never have had the records, so its disk explains nothing."""
    after = narrative.next
    if after and after.leader not in narrative.leaders and (acks != "all" or after.clean is False):
        return
    whose = [after.leader] if after else narrative.leaders
    until = after.seen if after and after.seen >= 0 else None
    for fault in context.faults:
        early_enough = until is None or fault.start <= until
        if fault.took >= narrative.times[0] and early_enough and any(map(fault.affected, whose)):
            yield fault


def _truncations(narrative: Narrative, context: PartitionContext) -> Iterator[ReplicaTruncation]:
    """Yield the first truncation of each broker that removed one of them, in a later epoch than
    theirs."""
    if narrative.offsets is None or not narrative.epochs:
        return
    begun = narrative.next.epoch if narrative.next else narrative.epochs[0].epoch + 1
    yield from truncations_of_records(
        context.truncations, narrative.offsets, begun, narrative.leaders
    )


def truncations_of_records(
    truncations: Iterable[ReplicaTruncation],
    offsets: tuple[int, int],
    begun: int,
    leaders: Collection[int],
) -> Iterator[ReplicaTruncation]:
    """Yield the first truncation of each broker that removed a record, from the epoch ``begun``
    on.

    Args:
        truncations: All truncations of the partition.
        offsets: The first and the last offset of the records.
        begun: The leader epoch from which on truncations count.
        leaders: The brokers that certainly had the records. Only these count if a truncation does
            not say where the log ended before.
    """
    seen: set[int] = set()
    first, last = offsets
    for truncation in sorted(truncations, key=lambda truncation: truncation.leader_epoch):
        takes = truncation.offset <= last and (
            truncation.broker in leaders
            if truncation.log_end is None
            else truncation.log_end > first
        )
        if takes and truncation.broker not in seen and truncation.leader_epoch >= begun:
            seen.add(truncation.broker)
            yield truncation


def _truncation_before(narrative: Narrative, context: PartitionContext) -> ReplicaTruncation | None:
    if narrative.next is None or narrative.offsets is None or not narrative.epochs:
        return None
    epochs = narrative.epochs[0].epoch, narrative.next.epoch
    return truncation_before_leading(
        context.truncations, narrative.offsets, epochs, narrative.next.leader
    )


def truncation_before_leading(
    truncations: Iterable[ReplicaTruncation],
    offsets: tuple[int, int],
    epochs: tuple[int, int],
    next_leader: int,
) -> ReplicaTruncation | None:
    """Return the last truncation by which the next leader removed the first record before it led,
    or None.

    Args:
        truncations: All truncations of the partition.
        offsets: The first and the last offset of the records.
        epochs: The leader epoch in which they were appended, and the next leader's.
        next_leader: The next leader.
    """
    found = [
        truncation
        for truncation in truncations
        if truncation.broker == next_leader
        and epochs[0] <= truncation.leader_epoch < epochs[1]
        and truncation.log_end is not None
        and truncation.log_end > offsets[0] >= truncation.offset
    ]
    return found[-1] if found else None


def _with_isr_expansion(narrative: Narrative, context: PartitionContext) -> Narrative:
    """Return the narrative with the ISR expansion by the next leader, if it happened in a later
    epoch than theirs that began above the log end with which the next leader began. The next leader
    then lacked records with which that epoch began, including these.

    For example, all records up to 48 were acked in epoch 2. Broker 4 leads epoch 3 from 48 with a
    high watermark of 47, and adds broker 1 to the ISR, whose log ends at 47. Broker 1 leads epoch 4
    from 47.
    """
    after = narrative.next
    if after is None or not narrative.epochs or after.log_end < 0:
        return narrative
    between = {
        term.epoch: term
        for term in context.leadership_terms
        if narrative.epochs[-1].epoch < term.epoch < after.epoch
    }
    came = [
        one
        for one in context.isr_expansions
        if one.broker == after.leader and one.epoch < after.epoch
    ]
    # The last expansion counts, because the broker may have fetched missing records before it.
    by = between.get(came[-1].epoch) if came else None
    if by is None or by.log_end <= after.log_end:
        return narrative
    return replace(narrative, isr_expansion=came[-1], expanding_term=by)


# --- telling --------------------------------------------------------------------------------------
#
# The narrative of a group of missing records in one sentence, and the phrases that other narratives
# share.


_NS_PER_S = 1_000_000_000
_NAMED_MAX = 3
_DELETED: Mapping[CauseKind, str] = {
    CauseKind.BELOW_LOG_START: ("the log starts above these records: its beginning was deleted"),
    CauseKind.DELETED_TOO_EARLY: (
        "the log starts above these records: its beginning was deleted, before retention allowed it"
    ),
    CauseKind.TOMBSTONE_TOO_EARLY: (
        "these records are tombstones that cleaners removed before delete.retention.ms had passed"
    ),
}
"""The sentence about records that the log itself deleted, by the kind of their cause."""


def sentence(narrative: Narrative, copies: Mapping[int, int] = MappingProxyType({})) -> str:
    """Return a sentence about these records, in which "these" and "they" are the records.
    ``copies`` has the number of them that each broker still holds."""
    held = (f"broker-{broker} still holds {count:,} of them" for broker, count in copies.items())
    return "; ".join((*_parts(narrative), *held)) + "."


def _parts(narrative: Narrative) -> Iterator[str]:
    yield _acked(narrative)
    if narrative.committed is not None:
        epoch = narrative.committed.epoch
        who = f"broker-{narrative.committed.leader}"
        yield f"{who} had a high watermark beyond them when it began epoch {epoch}"
    for term in narrative.unaware:
        yield f"broker-{term.leader} was elected in epoch {term.epoch} but never learned of it"
    match narrative.kind:
        case CauseKind.LOST_FROM_DISK:
            whose = narrative.next.leader if narrative.next else narrative.leaders[0]
            yield f"{labels(narrative.disks)} took data from the disk of broker-{whose}"
        case CauseKind.TRUNCATED_BEFORE_LEADING if narrative.next and narrative.truncation_before:
            had = truncation_phrase(narrative.truncation_before)
            yield f"broker-{narrative.next.leader} had {had} before it led"
        case CauseKind.ISR_EXPANDED_TOO_EARLY:
            yield from _expansion_phrase(narrative)
        case CauseKind.DEDUPLICATED if narrative.purged:
            yield (
                "librdkafka gives the sequence numbers of records that it purges with an "
                "aborted transaction to the records that it sends next: "
                "confluentinc/librdkafka#5423"
            )
        case _:
            pass
    if narrative.next and narrative.next.clean is False and len(narrative.leaders) == 1:
        isr = list(narrative.next.isr_before)
        yield (
            f"broker-{narrative.next.leader} was elected outside the ISR{f' {isr}' if isr else ''}"
        )
    if narrative.kind is not CauseKind.BELOW_LOG_START:
        yield from _fault_words(narrative)
    if narrative.kind not in _DELETED:
        yield from _next(narrative)
        yield from _removed(narrative)
    yield from _untold(narrative)


def _expansion_phrase(narrative: Narrative) -> Iterator[str]:
    if narrative.isr_expansion and narrative.expanding_term and narrative.next:
        by, who = narrative.expanding_term, f"broker-{narrative.next.leader}"
        led = f"broker-{by.leader} led epoch {by.epoch} from offset {by.log_end:,}, with them"
        since = narrative.isr_expansion.time - narrative.times[0]
        when = f" {seconds(since)} after the first of these" if since > 0 else ""
        yield f"{led}, and added {who}, which lacked some of them, to the ISR{when}"


def _acked(narrative: Narrative) -> str:
    if narrative.kind in _DELETED:
        return _DELETED[narrative.kind]
    if narrative.kind is CauseKind.DEDUPLICATED:
        return _deduplicated(narrative)
    if narrative.kind is CauseKind.UNANSWERED:
        return f"no broker answered for these records (acks=0){_while_led(narrative)}"
    if narrative.shown:
        return f"consumers read these records{_late_words(narrative)}; {_appended(narrative)}"
    if not narrative.epochs:
        return "the broker that acked these records is not known"
    leaders, epochs = brokers(narrative.leaders), _epochs(narrative)
    return f"{leaders} acked these records as leader of {epochs}{_late_words(narrative)}"


def _deduplicated(narrative: Narrative) -> str:
    others = "earlier records that their producer had given up"
    acked = f"acked them at the offsets of those, as leader of {_epochs(narrative)}"
    return (
        f"{brokers(narrative.leaders)} took these records for {others}, and {acked}; no "
        "broker ever had them"
    )


def _appended(narrative: Narrative) -> str:
    if not narrative.epochs:
        return "the broker that appended them is not known"
    return f"{brokers(narrative.leaders)} appended them as leader of {_epochs(narrative)}"


def _while_led(narrative: Narrative) -> str:
    if not narrative.epochs:
        return ""
    return (
        f", sent while {brokers(narrative.leaders)} led in "
        f"{_epochs(narrative)}{_late_words(narrative)}"
    )


def _late_words(narrative: Narrative) -> str:
    spans = []
    if len(narrative.leaders) > 1:
        return ""
    if narrative.without_session is not None and narrative.without_session > 0:
        span = seconds(narrative.without_session)
        spans.append(f"{span} after the end of its registration was observed")
    if narrative.late is not None and narrative.late > 0 and narrative.deposed_by is not None:
        span = seconds(narrative.late)
        spans.append(f"{span} after broker-{narrative.deposed_by.leader} was observed as leader")
    return f", up to {' and '.join(spans)}" if spans else ""


def _epochs(narrative: Narrative) -> str:
    numbers = [str(term.epoch) for term in narrative.epochs]
    if len(numbers) > _NAMED_MAX:
        return f"one of the epochs {numbers[0]} to {numbers[-1]}"
    return f"epoch {' or '.join(numbers)}"


def brokers(numbers: Sequence[int]) -> str:
    """Return ``broker-1 or broker-2``."""
    if len(numbers) > _NAMED_MAX:
        return "one of several brokers"
    return " or ".join(f"broker-{number}" for number in numbers)


def _fault_words(narrative: Narrative) -> Iterator[str]:
    if narrative.kind is CauseKind.LOST_FROM_DISK:
        return
    yield from fault_phrases(narrative.faults, *narrative.times)


def fault_phrases(faults: Sequence[ContextFault], since: int, until: int) -> Iterator[str]:
    """Yield a phrase for each of the faults that were active. ``since`` and ``until`` are when the
    first and the last of the records were handled."""
    yield from (_fault(fault, since, until) for fault in faults[:_NAMED_MAX])
    if len(faults) > _NAMED_MAX:
        yield f"{len(faults) - _NAMED_MAX} more faults were active"


def _fault(fault: ContextFault, first: int, last: int) -> str:
    """Return a phrase about an active fault. An order to the cluster, such as a reassignment,
    affects no server."""
    whom = _servers(fault)
    was_active = f"{fault.label} was active{f' on {whom}' if whom else ''}"
    since = fault.start - first
    if since <= 0 and fault.end < last:
        return f"{was_active} until {seconds(last - fault.end)} before the last of these"
    if since <= 0:
        return was_active
    happened = f"affected {whom}" if whom else "began"
    return f"{fault.label} {happened} {seconds(since)} after the first of these"


def _servers(fault: ContextFault) -> str:
    if fault.servers is None:
        return "unknown servers"
    if len(fault.servers) > _NAMED_MAX:
        return f"{len(fault.servers)} servers"
    return ", ".join(fault.servers)


def _next(narrative: Narrative) -> Iterator[str]:
    after = narrative.next
    if after is None or len(narrative.leaders) > 1:
        return
    led = f"led epoch {after.epoch}"
    if narrative.kind is CauseKind.NOT_REPLICATED:
        led = f"had not fetched them and {led}"
    led = f"broker-{after.leader} {led}"
    if after.log_end < 0 or narrative.offsets is None:
        yield led
    elif narrative.kind is CauseKind.NOT_REPLICATED:
        yield f"{led} from offset {after.log_end:,}"
    else:
        yield f"{led} from offset {after.log_end:,}, without them"


def _removed(narrative: Narrative) -> Iterator[str]:
    yield from (
        f"broker-{truncation.broker} {truncation_phrase(truncation)}"
        for truncation in narrative.truncations
    )
    if (
        not narrative.truncations
        and narrative.next is not None
        and narrative.kind is not CauseKind.UNANSWERED
    ):
        yield "no broker's log shows which broker truncated them"


def truncation_phrase(truncation: ReplicaTruncation) -> str:
    """Return a phrase about a truncation, with the broker's own reason."""
    whence = "" if truncation.log_end is None else f"from {truncation.log_end:,} "
    whose = "" if truncation.leader < 0 else f" as follower of broker-{truncation.leader}"
    when = "" if truncation.leader_epoch < 0 else f" in epoch {truncation.leader_epoch}"
    return f"truncated its log {whence}to {truncation.offset:,}{whose}{when} ({truncation.due_to})"


def _untold(narrative: Narrative) -> Iterator[str]:
    if narrative.kind is CauseKind.UNEXPLAINED:
        yield f"nothing in the history explains it{_ruled_out(narrative)}"
    elif narrative.kind is CauseKind.UNKNOWN:
        yield f"how they were lost is unknown: {_missing(narrative)}"


def _ruled_out(narrative: Narrative) -> str:
    after = narrative.next
    if after is None:
        return ": no later leader is known to have begun without them" if narrative.epochs else ""
    if after.leader in narrative.leaders:
        return f": no fault took data from the disk of broker-{after.leader}"
    return (
        f": broker-{after.leader} was in the ISR {list(after.isr_before)}, no fault took data "
        "from its disk, and it is not known to have truncated its log before"
    )


def _missing(narrative: Narrative) -> str:
    if len(narrative.leaders) > 1:
        return "it is not known which of them acked these records"
    if narrative.next is not None:
        return f"the ISR before epoch {narrative.next.epoch} was not observed"
    if not narrative.epochs or not narrative.untold:
        return "the leader was not observed until the end"
    return "no broker's log shows where the log ended when a later leader began"


def labels(faults: Sequence[ContextFault]) -> str:
    """Return the labels of the first few faults that took data, with how they did."""
    return " and ".join(fault.taker or fault.label for fault in faults[:_NAMED_MAX])


def seconds(nanoseconds: int) -> str:
    """Return a duration with two or three significant digits: 40 ms, 4.2 s, 42 s."""
    seconds = nanoseconds / _NS_PER_S
    if seconds < 1:
        return f"{max(round(seconds * 1000), 1)} ms"
    return f"{seconds:.{0 if seconds >= 10 else 1}f} s"
