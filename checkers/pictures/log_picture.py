"""The picture of the logs around one cause: offsets across, replicas down.

:func:`log_picture` is a pure function of a :class:`Subject` and the :class:`Facts` of its
partition. A picture says what was not observed. It never shows that as an empty log: a
:class:`Slot` with nothing in it is one whose log was read and holds no record there.

The state of a log before a truncation is not recorded. It is drawn as far as the evidence shows it:

- The broker that acked a lost record held it. Its leader epoch is that of the cause.
- A broker that logged a truncation from 1,505 to 5 held a record at each offset from 5 to 1,504. If
  it is not known to have acked them, it is not known which records these were.
- Below the truncation the log is the same as afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from ackproof.checkers.checks.catalogue import DIVERGENT, INCONSISTENT, VANISHED
from ackproof.checkers.context.broker_logs import ReplicaTruncation
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.root_cause.duplicates import DUPLICATED
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import LOST
from ackproof.checkers.root_cause.narratives import (
    faults_on,
    truncation_before_leading,
    truncations_of_records,
)
from ackproof.checkers.root_cause.partition_context import (
    NO_CONTEXT,
    ContextFault,
    LeadershipTerm,
    PartitionContext,
)

COLUMNS_MAX = 41
"""The most columns of a picture, so that it fits 100 characters."""

AROUND_MAX = 12
"""The most offsets that are shown before and after a place of interest."""

COPIES_MAX = 3
"""The most copies of a record that are shown."""

TERMS_MAX = 8
"""The most leadership terms that are named."""

RecordName = tuple[int, int]
"""The producer and the sequence number of a record of the cell."""

Ranges = tuple[tuple[int, int], ...]
"""Ranges of offsets, both ends included, in order and apart."""

GONE = (LOST, VANISHED, INCONSISTENT)
"""The anomalies of records that were acked or read and are not in the final log."""

_NEVER_HELD = (CauseKind.DEDUPLICATED, CauseKind.UNANSWERED)
"""The kinds of causes whose records no leader is known to have held."""


# --- the subject ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The anomalies that a picture is about: those of one cause, or one anomaly without a cause.

    Attributes:
        row: The number of the representative row in ``anomalies.parquet``, from 1.
        kind: The kind of the cause, or None without one.
        detail: The representative row's own words.
        name: The representative record, or None if it is no record of a client.
        at: Its offset, or None if none is known.
        records: The number of records or, for replicas that differ, of offsets.
        offsets: The offsets at which they were acked, read or passed over, or differ.
        names: The record that was acked or read at each offset.
        times: The time of the first and of the last, or None if unknown.
        epochs, leaders: The leader epochs in which they may have been appended, and their leaders.
        next_epoch, next_leader, next_offset: The next leader without them; None if unknown.
        cut_by: The brokers that logged their truncation.
        copies: The offsets of the representative record, if it is in the log more than once.
        brokers: The two replicas that differ.
        faults: The labels of the faults that they are attributed to.
    """

    run: int
    cell: str
    topic: str
    partition: int
    anomaly: str
    row: int
    kind: str | None = None
    detail: str = ""
    name: RecordName | None = None
    at: int | None = None
    records: int = 1
    offsets: Ranges = ()
    names: Mapping[int, RecordName] = field(default_factory=dict)
    times: tuple[int, int] | None = None
    epochs: tuple[int, ...] = ()
    leaders: tuple[int, ...] = ()
    next_epoch: int | None = None
    next_leader: int | None = None
    next_offset: int | None = None
    cut_by: tuple[int, ...] = ()
    copies: tuple[int, ...] = ()
    brokers: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last offset, or None without any."""
        return (self.offsets[0][0], self.offsets[-1][1]) if self.offsets else None

    @property
    def is_gone(self) -> bool:
        """Whether the records were acked or read and are not in the final log."""
        return self.anomaly in GONE


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges of offsets in order, with those that overlap or touch made one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The offset of a column, or the offsets from ``first`` to ``last`` that are left out there."""

    first: int
    last: int

    @property
    def is_elided(self) -> bool:
        """Whether it stands for several offsets."""
        return self.last > self.first


def columns_of(subject: Subject) -> tuple[Column, ...]:
    """Return the columns of a picture: the offsets around the first and last offset of the subject,
    around its representative record, and around the copies of that. There are none if no offset is
    known."""
    points = set(subject.copies[:COPIES_MAX]) or set(subject.span or ())
    if subject.at is not None and not subject.copies:
        points.add(subject.at)
    for around in range(AROUND_MAX, 0, -1):
        columns = _around(sorted(points), around)
        if len(columns) <= COLUMNS_MAX:
            return columns
    raise AssertionError("unreachable: three points have at most eleven columns")


def _around(points: Sequence[int], around: int) -> tuple[Column, ...]:
    shown = sorted(
        {offset for point in points for offset in range(max(point - around, 0), point + around + 1)}
    )
    columns = [Column(first=offset, last=offset) for offset in shown[:1]]
    for before, offset in pairwise(shown):
        if offset > before + 1:
            columns.append(Column(first=before + 1, last=offset - 1))
        columns.append(Column(first=offset, last=offset))
    return tuple(columns)


# --- the facts ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The record at an offset of a log.

    Attributes:
        epoch: The leader epoch in which it was appended, or None if unknown.
        name: Its name, or None if no client wrote it or it cannot be decoded.
    """

    epoch: int | None
    name: RecordName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The records of a log at the offsets of a picture.

    Attributes:
        held: The records by offset.
        unknown: The ranges of offsets of which it is unknown what the log holds.
        unobserved: The reason why nothing is known of it, or an empty string.
        watermark: The recorded high watermark, or None.
    """

    held: Mapping[int, Held] = field(default_factory=dict)
    unknown: Ranges = ()
    unobserved: str = ""
    watermark: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """The records that a consumer was given at the offsets of a picture.

    Attributes:
        given: The records that it was given at each of these offsets; None for a payload that no
            client of the cell wrote.
        unobserved: The reason why some may be missing, or an empty string.
    """

    given: Mapping[int, frozenset[RecordName | None]] = field(default_factory=dict)
    unobserved: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of a history that a picture shows.

    Attributes:
        final_log: The final read.
        replicas: The collected raw log of each broker that has a replica.
        acks: The acked records at each offset that has a column. Several were acked at one offset
            if a log was truncated in between.
        lost: Those of them that are not in the final log.
        acked_count: The number of acked records from the first to the last column.
        lost_count: The number of these that are not in the final log.
        acks_unobserved: The reason why some acks may be missing, or an empty string.
        clients: What each consumer of the partition was given.
        context: The leadership terms, faults and truncations.
    """

    final_log: LogFacts
    replicas: Mapping[int, LogFacts] = field(default_factory=dict)
    acks: Mapping[int, Sequence[RecordName]] = field(default_factory=dict)
    lost: frozenset[RecordName] = frozenset()
    acked_count: int = 0
    lost_count: int = 0
    acks_unobserved: str = ""
    clients: Mapping[str, ClientFacts] = field(default_factory=dict)
    context: PartitionContext = NO_CONTEXT


# --- the picture ----------------------------------------------------------------------------------


class Content(StrEnum):
    """The content of a log at an offset."""

    RECORD = "record"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """An offset of a log.

    Attributes:
        content: What the log holds there.
        epoch: The leader epoch of the record, or None if unknown.
        lost: Whether this is one of the lost records.
    """

    content: Content
    epoch: int | None = None
    lost: bool = False


NOTHING = Slot(content=Content.NOTHING)
UNKNOWN = Slot(content=Content.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """A log.

    Attributes:
        broker: The broker of the replica, or None for the final log.
        before: Whether this is the log before its truncation, and not as it was collected.
        slots: What it holds at each column; None where offsets are left out.
        unobserved: The reason why nothing is known of it, or an empty string.
    """

    broker: int | None
    before: bool = False
    slots: tuple[Slot | None, ...] = ()
    unobserved: str = ""


GIVEN, GIVEN_ANOTHER = "g", "o"
"""The marks of offsets at which a consumer was given the record of the final log, or another."""


OTHER_COPY = "+"
"""The mark of a copy of a record that is not the representative one."""

NOT_OBSERVED = "?"
"""The mark of an offset of which it is unknown whether it has a mark."""


class Sign(StrEnum):
    """The meaning of a row of marks."""

    ACKED = "acked, kept"
    LOST = "acked, lost"
    READ_LOST = "read, gone"
    COPY = "copies"
    DIFFERS = "differs"
    PASSED_OVER = "not given"
    GIVEN = "given"
    CONCERNED = "anomaly"
    WATERMARK = "high watermark"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRow:
    """Marks at some offsets.

    Attributes:
        sign: Their meaning.
        client: The consumer that was given these offsets, or an empty string.
        marks: One character for each column, a space where there is none.
        unobserved: The reason why marks may be missing, or an empty string.
    """

    sign: Sign
    client: str = ""
    marks: tuple[str, ...] = ()
    unobserved: str = ""

    @property
    def is_unobserved(self) -> bool:
        """Whether no mark is known, and some may be missing."""
        return bool(self.unobserved) and not set(self.marks) - {" ", NOT_OBSERVED}


class Part(StrEnum):
    """The part of a leader in what a picture shows."""

    ACKED = "acked"
    NEXT = "next"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A leadership term.

    Attributes:
        part: Its part.
        epoch, broker: The leader epoch, and the leader, or None if that was not observed.
        log_start: The log end offset with which it began, or None if not observed.
        high_watermark: The high watermark at that moment, or None if not observed.
        seen: The time at which it was first observed, or None.
        in_isr: Whether the leader was in the ISR observed before; None if that is unknown.
        isr: That ISR.
        unaware: Whether the leader never learned that it leads.
    """

    part: Part
    epoch: int
    broker: int | None
    log_start: int | None = None
    high_watermark: int | None = None
    seen: int | None = None
    in_isr: bool | None = None
    isr: tuple[int, ...] = ()
    unaware: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A truncation. ``seen`` is when its leader epoch was first observed, or None; the broker's own
    time of the truncation is not comparable with other times."""

    cut: ReplicaTruncation
    seen: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFault:
    """A fault that was active.

    Attributes:
        label: Its name and number.
        servers: The affected servers, or None if unknown.
        start: The time at which it began, or None if that is not recorded for the partition.
        end: The time at which it was proven healed, or None.
    """

    label: str
    servers: tuple[str, ...] | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPicture:
    """The picture of one subject.

    Attributes:
        subject: The subject.
        columns: The offsets across. There are none if no offset is known.
        marks: The marks above the logs.
        logs: The logs, downwards.
        acked: The number of acked records from the first to the last column, or None if unknown.
        lost: The number of these that are lost.
        is_lost_known: Whether any further ones would be known, because the final read is complete.
        leaders: The leadership terms by epoch.
        truncations: The truncations that removed the records, and that of the next leader.
        watermarks: The high watermark of each broker when its log was collected, where recorded.
        faults: The faults that were active.
    """

    subject: Subject
    columns: tuple[Column, ...]
    marks: tuple[MarkRow, ...]
    logs: tuple[LogRow, ...]
    acked: int | None
    lost: int
    is_lost_known: bool
    leaders: tuple[Leader, ...]
    truncations: tuple[Truncation, ...]
    watermarks: tuple[tuple[int, int], ...]
    faults: tuple[OpenFault, ...]

    @property
    def epochs(self) -> tuple[int, ...]:
        """The leader epochs of the records that are shown, in order."""
        found = {slot.epoch for row in self.logs for slot in row.slots if slot}
        return tuple(sorted(epoch for epoch in found if epoch is not None))


def log_picture(subject: Subject, facts: Facts) -> LogPicture:
    """Return the picture of a subject. ``facts`` has its partition at the offsets of
    :func:`columns_of`."""
    columns = columns_of(subject)
    truncations = _truncations(subject, facts.context)
    logs = tuple(_logs(subject, facts, columns, truncations)) if columns else ()
    picture = LogPicture(
        subject=subject,
        columns=columns,
        marks=tuple(_marks(subject, facts, columns)),
        logs=logs,
        acked=None if facts.acks_unobserved or not columns else facts.acked_count,
        lost=facts.lost_count,
        is_lost_known=not facts.final_log.unknown and not facts.final_log.unobserved,
        leaders=(),
        truncations=truncations,
        watermarks=tuple(
            (broker, log.watermark)
            for broker, log in sorted(facts.replicas.items())
            if log.watermark is not None
        ),
        faults=tuple(_faults(subject, facts.context)),
    )
    leaders = _leaders(subject, facts.context, picture.epochs)
    watermarks = _watermarks(leaders, columns)
    marks = (*picture.marks, watermarks) if watermarks else picture.marks
    return replace(picture, leaders=leaders, marks=marks)


# --- marks ----------------------------------------------------------------------------------------


def _marks(subject: Subject, facts: Facts, columns: Sequence[Column]) -> Iterator[MarkRow]:
    if not columns:
        return
    yield _ack_marks(Sign.ACKED, "a", facts, columns)
    if subject.anomaly in (VANISHED, INCONSISTENT):
        yield MarkRow(sign=Sign.READ_LOST, marks=_at(columns, dict.fromkeys(subject.names, "r")))
    if subject.is_gone or facts.lost:
        yield _ack_marks(Sign.LOST, "x", facts, columns)
    if subject.anomaly == DUPLICATED:
        yield MarkRow(sign=Sign.COPY, marks=_copies(subject, columns))
    elif subject.anomaly == DIVERGENT:
        yield MarkRow(sign=Sign.DIFFERS, marks=_within(columns, subject.offsets, "!"))
    elif not subject.is_gone and not facts.clients:
        yield MarkRow(sign=Sign.CONCERNED, marks=_within(columns, subject.offsets, "!"))
    if facts.clients:
        if not subject.is_gone:
            marks = _within(columns, subject.offsets, "-")
            yield MarkRow(sign=Sign.PASSED_OVER, marks=marks)
        for client, given in facts.clients.items():
            yield MarkRow(
                sign=Sign.GIVEN,
                client=client,
                marks=_at(columns, _given(given, facts.final_log), given.unobserved),
                unobserved=given.unobserved,
            )


def _watermarks(leaders: Sequence[Leader], columns: Sequence[Column]) -> MarkRow | None:
    """Return marks at the high watermarks with which these leaders began, or None if none of them
    has a column."""
    found = {one.high_watermark: "^" for one in leaders if one.high_watermark is not None}
    marks = _at(columns, found)
    return MarkRow(sign=Sign.WATERMARK, marks=marks) if "^" in marks else None


def _ack_marks(sign: Sign, mark: str, facts: Facts, columns: Sequence[Column]) -> MarkRow:
    marked = {}
    for offset, names in facts.acks.items():
        lost = [name for name in names if name in facts.lost]
        if sign is Sign.LOST and lost:
            marked[offset] = mark
        elif sign is Sign.ACKED and len(lost) < len(names):
            held = facts.final_log.held.get(offset)
            is_kept = held is not None and held.name in names
            marked[offset] = mark if is_kept else NOT_OBSERVED
    unobserved = facts.acks_unobserved
    return MarkRow(sign=sign, marks=_at(columns, marked, unobserved), unobserved=unobserved)


def _given(client: ClientFacts, final_log: LogFacts) -> dict[int, str]:
    """Return a mark for each offset at which a consumer was given a record: that of the final log,
    another one only, or one that cannot be compared with it."""
    return {
        offset: _given_mark(names, _slot(final_log, offset), final_log.held.get(offset))
        for offset, names in client.given.items()
    }


def _given_mark(names: frozenset[RecordName | None], slot: Slot, held: Held | None) -> str:
    if slot.content is Content.UNKNOWN or (held is not None and held.name is None):
        return NOT_OBSERVED
    return GIVEN if held is not None and held.name in names else GIVEN_ANOTHER


def _copies(subject: Subject, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the number of each copy of the representative record, and a plus sign at copies of
    other records of the cause."""
    numbered = {offset: str(number) for number, offset in enumerate(subject.copies[:9], 1)}
    others = _within(columns, subject.offsets, OTHER_COPY)
    shown = (numbered.get(column.first) for column in columns)
    return tuple(number or mark for number, mark in zip(shown, others, strict=True))


def _at(
    columns: Sequence[Column], marked: Mapping[int, str], unobserved: str = ""
) -> tuple[str, ...]:
    """Return the mark of each column. Without one, a column is blank, or unknown if some marks may
    be missing."""
    otherwise = NOT_OBSERVED if unobserved else " "
    return tuple(
        " " if column.is_elided else marked.get(column.first, otherwise) for column in columns
    )


def _within(columns: Sequence[Column], offsets: Ranges, mark: str) -> tuple[str, ...]:
    return tuple(
        mark
        if not column.is_elided and any(first <= column.first <= last for first, last in offsets)
        else " "
        for column in columns
    )


# --- logs -----------------------------------------------------------------------------------------


def _logs(
    subject: Subject,
    facts: Facts,
    columns: Sequence[Column],
    truncations: Sequence[Truncation],
) -> Iterator[LogRow]:
    cuts = {one.cut.broker: one.cut for one in reversed(truncations)}
    for broker in _brokers(subject, facts, cuts):
        collected = facts.replicas.get(broker)
        if subject.is_gone and subject.kind not in _NEVER_HELD:
            slots = _before(subject, facts, columns, broker, cuts.get(broker))
            if slots is not None:
                yield LogRow(broker=broker, before=True, slots=slots)
        if collected is None:
            yield LogRow(broker=broker, unobserved="its raw log was not collected")
        else:
            yield _log(broker, collected, subject, columns)
    yield _log(None, facts.final_log, subject, columns)


def _brokers(subject: Subject, facts: Facts, cuts: Mapping[int, ReplicaTruncation]) -> list[int]:
    """Return the brokers that have a replica: the leader that acked first, then the next leader."""
    named = (*subject.leaders, subject.next_leader, *subject.brokers, *cuts)
    found = dict.fromkeys(one for one in named if one is not None and one >= 0)
    return [*(found | dict.fromkeys(sorted(facts.replicas)))]


def _log(broker: int | None, log: LogFacts, subject: Subject, columns: Sequence[Column]) -> LogRow:
    if log.unobserved:
        return LogRow(broker=broker, unobserved=log.unobserved)
    lost = subject.names if subject.is_gone else {}
    slots = tuple(
        None if one.is_elided else _slot(log, one.first, lost.get(one.first)) for one in columns
    )
    return LogRow(broker=broker, slots=slots)


def _slot(log: LogFacts, offset: int, lost: RecordName | None = None) -> Slot:
    """Return what a log holds at an offset. ``lost`` is the lost record of that offset."""
    held = log.held.get(offset)
    if held is not None:
        is_lost = lost is not None and held.name == lost
        return Slot(content=Content.RECORD, epoch=held.epoch, lost=is_lost)
    is_unknown = any(first <= offset <= last for first, last in log.unknown)
    return UNKNOWN if is_unknown or log.unobserved else NOTHING


def _before(
    subject: Subject,
    facts: Facts,
    columns: Sequence[Column],
    broker: int,
    cut: ReplicaTruncation | None,
) -> tuple[Slot | None, ...] | None:
    """Return the log of a broker before it lost the records, or None if nothing is known of that or
    it still holds them all."""
    had = subject.leaders == (broker,)
    if cut is None and not had:
        return None
    later = [one for one in (cut.offset if cut else None, subject.next_offset) if one is not None]
    changed = min(later, default=subject.span[0] if subject.span else 0)
    epoch = subject.epochs[0] if len(subject.epochs) == 1 else None
    now = facts.replicas.get(broker, facts.final_log)
    names = subject.names
    if (
        had
        and cut is None
        and all(
            (held := now.held.get(offset)) is not None and held.name == name
            for offset, name in names.items()
        )
    ):
        return None

    def slot(offset: int) -> Slot:
        if had and offset in names:
            return Slot(content=Content.RECORD, epoch=epoch, lost=True)
        held = now.held.get(offset) or facts.final_log.held.get(offset)
        if held and had and held.epoch == epoch:
            return Slot(content=Content.RECORD, epoch=epoch)  # the epoch's leader appended it
        if offset < changed:
            older = held and held.epoch is not None and (epoch is None or held.epoch <= epoch)
            return Slot(content=Content.RECORD, epoch=held.epoch) if held and older else UNKNOWN
        if cut is None or cut.log_end is None:
            return UNKNOWN
        return Slot(content=Content.RECORD) if offset < cut.log_end else NOTHING

    return tuple(None if one.is_elided else slot(one.first) for one in columns)


# --- leaders, truncations, faults -----------------------------------------------------------------


def _truncations(subject: Subject, context: PartitionContext) -> tuple[Truncation, ...]:
    """Return the truncations that removed the records, and the one by which the next leader had
    removed them before it led. Of replicas that differ, return the last one of each."""
    seen = {term.epoch: term.seen for term in context.leadership_terms if term.seen >= 0}
    return tuple(
        Truncation(cut=cut, seen=seen.get(cut.leader_epoch))
        for cut in dict.fromkeys(_cuts(subject, context))
    )


def _cuts(subject: Subject, context: PartitionContext) -> Iterator[ReplicaTruncation]:
    if subject.anomaly == DIVERGENT:
        for broker in subject.brokers:
            own = [one for one in context.truncations if one.broker == broker]
            yield from own[-1:]
    if not subject.is_gone or subject.span is None or not subject.epochs:
        return
    if subject.next_leader is not None and subject.next_epoch is not None:
        before = truncation_before_leading(
            context.truncations,
            subject.span,
            (subject.epochs[0], subject.next_epoch),
            subject.next_leader,
        )
        yield from [before] if before else []
    begun = subject.epochs[0] + 1 if subject.next_epoch is None else subject.next_epoch
    for cut in truncations_of_records(context.truncations, subject.span, begun, subject.leaders):
        if cut.broker in subject.cut_by:
            yield cut


def _faults(subject: Subject, context: PartitionContext) -> Iterator[OpenFault]:
    """Yield the faults that the records are attributed to or, without any, those that were
    active."""
    known = {fault.label: fault for fault in context.faults}
    for label in subject.faults:
        yield _fault(known[label]) if label in known else OpenFault(label=label)
    if not subject.faults and subject.times is not None:
        yield from map(_fault, faults_on(context, *subject.times, subject.leaders))


def _fault(fault: ContextFault) -> OpenFault:
    return OpenFault(
        label=fault.label,
        servers=None if fault.servers is None else tuple(fault.servers),
        start=fault.start or None,  # 0 stands for a fault whose rows are missing
        end=None if fault.end == FOREVER else fault.end,
    )


def _leaders(
    subject: Subject, context: PartitionContext, epochs: Sequence[int]
) -> tuple[Leader, ...]:
    """Return the terms of the cause, those between, and those whose records are shown. The terms of
    the cause are always among them."""
    next_ = () if subject.next_epoch is None else (subject.next_epoch,)
    main = {*subject.epochs, *next_}
    between = {
        term.epoch
        for term in context.leadership_terms
        if next_ and subject.epochs and subject.epochs[0] < term.epoch < next_[0]
    }
    others = sorted(
        (between | set(epochs)) - main, key=lambda epoch: (epoch not in between, -epoch)
    )
    shown = sorted([*main, *others[: max(TERMS_MAX - len(main), 0)]])
    terms = {term.epoch: term for term in context.leadership_terms}
    return tuple(_leader(epoch, terms.get(epoch), subject) for epoch in shown)


def _leader(epoch: int, term: LeadershipTerm | None, subject: Subject) -> Leader:
    part = Part.ACKED if epoch in subject.epochs else Part.OTHER
    part = Part.NEXT if epoch == subject.next_epoch else part
    if term is None:
        acked = subject.leaders[0] if len(subject.leaders) == 1 else None
        brokers = {Part.ACKED: acked, Part.NEXT: subject.next_leader, Part.OTHER: None}
        return Leader(part=part, epoch=epoch, broker=brokers[part])
    return Leader(
        part=part,
        epoch=epoch,
        broker=term.leader,
        log_start=term.log_end if term.log_end >= 0 else None,
        high_watermark=term.high_watermark if term.high_watermark >= 0 else None,
        seen=term.seen if term.seen >= 0 else None,
        in_isr=term.clean,
        isr=tuple(term.isr_before),
        unaware=term.unaware,
    )
