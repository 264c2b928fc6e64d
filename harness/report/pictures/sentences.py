"""The sentences that read a picture aloud, and the phrases that its text and its SVG share."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ackproof.checkers.pictures.log_picture import (
    GIVEN,
    GIVEN_ANOTHER,
    NOT_OBSERVED,
    OTHER_COPY,
    Content,
    Leader,
    LogPicture,
    LogRow,
    MarkRow,
    OpenFault,
    Part,
    Sign,
    Truncation,
)
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.narratives import truncation_phrase
from ackproof.history.messages import several

_NS_PER_S = 1_000_000_000
_NAMED_MAX = 4

_PARTS = {Part.ACKED: "led", Part.NEXT: "led next", Part.OTHER: "led"}
"""The labels of the leaders in a picture."""

_MEANINGS = {
    GIVEN: "the consumer was given this record",
    GIVEN_ANOTHER: "the consumer was given another record",
    OTHER_COPY: "a copy of another record of this cause",
    NOT_OBSERVED: "not observed",
}

_SUBJECTS = {
    "lost": "acknowledged and lost",
    "vanished-read": "read and later absent",
    "inconsistent-read": "read and later different",
    "duplicated": "in the log more than once",
    "divergent-replicas": "different among replicas",
    "poll-skip": "passed over by a consumer",
    "unseen": "never given to a consumer",
    "skipped-by-commit": "committed but never given",
}


def clock(nanoseconds: int) -> str:
    """Return the time of day (UTC) with milliseconds."""
    moment = datetime.fromtimestamp(nanoseconds // _NS_PER_S, UTC)
    return f"{moment:%H:%M:%S}.{nanoseconds % _NS_PER_S // 1_000_000:03d}"


def title(picture: LogPicture) -> str:
    """Return the title: the partition, the offsets and the fate of their records."""
    subject = picture.subject
    where = f"{subject.topic}-{subject.partition}"
    what = _SUBJECTS.get(subject.anomaly, f"with the anomaly {subject.anomaly}")
    noun = "offset" if subject.anomaly == "divergent-replicas" else "record"
    return f"{where}, {offsets(picture)}: {several(subject.records, noun)} {what}"


def offsets(picture: LogPicture) -> str:
    """Return the offsets of the subject: ``offsets 5 to 1,504``."""
    subject = picture.subject
    if subject.copies:
        return f"offsets {_listed([f'{one:,}' for one in subject.copies])}"
    if subject.span is None:
        return "offsets unknown"
    first, last = subject.span
    if first == last:
        return f"offset {first:,}"
    return f"offsets {first:,} to {last:,}"


def label(row: LogRow | MarkRow) -> str:
    """Return the label of a row."""
    if isinstance(row, MarkRow):
        return row.client or str(row.sign)
    name = "final log" if row.broker is None else f"broker-{row.broker}"
    return f"{name} before" if row.before else name


def ruler(picture: LogPicture) -> Iterator[tuple[int, str]]:
    """Yield the places of the columns whose offsets are written above them, and these offsets. The
    most important ones come first, because not all have room."""
    if not picture.columns:
        return
    subject = picture.subject
    places = {column.first: place for place, column in enumerate(picture.columns)}
    ends = picture.columns[0].first, picture.columns[-1].last
    wanted = (*subject.copies, *(() if subject.copies else subject.span or ()), subject.at, *ends)
    for offset in dict.fromkeys(wanted):
        if offset is not None and offset in places:
            yield places[offset], f"{offset:,}"


def meanings(picture: LogPicture) -> Iterator[tuple[str, str]]:
    """Yield each mark of a picture that its row does not explain, with its meaning."""
    shown = {mark for row in picture.marks for mark in row.marks if not row.is_unobserved}
    yield from ((mark, words) for mark, words in _MEANINGS.items() if mark in shown)


def events(picture: LogPicture) -> Iterator[tuple[str, str]]:
    """Yield a label and a line of text for each consumer, leadership term, truncation and fault,
    and for the recorded high watermarks."""
    yield from (("consumer", row.client) for row in picture.marks if row.client)
    yield from ((_PARTS[one.part], _leader(one)) for one in picture.leaders)
    yield from (("truncated", _truncation(one)) for one in picture.truncations)
    yield from (("fault", _fault(one)) for one in picture.faults)
    if picture.columns:
        yield "high watermark", f"at collection: {_watermarks(picture)}"


def _leader(one: Leader) -> str:
    """Return a leadership term in words."""
    if one.broker is None:
        return f"epoch {one.epoch}: the leader was not observed"
    parts = [f"epoch {one.epoch}: broker-{one.broker}"]
    if one.unaware:
        parts.append("was elected but never learned of it")
    elif one.log_start is None:
        parts.append("led from an offset that was not observed")
    else:
        parts.append(f"led from offset {one.log_start:,}")
    watermark = f"{one.high_watermark:,}" if one.high_watermark is not None else "not observed"
    extras = [f"high watermark {watermark}", _elected(one)]
    extras.append("time not observed" if one.seen is None else f"seen {clock(one.seen)}")
    return f"{' '.join(parts)}; {', '.join(extras)}"


def _elected(one: Leader) -> str:
    isr = f" {list(one.isr)}" if one.isr else ""
    if one.in_isr is None:
        return "ISR before it not observed"
    return f"elected {'from' if one.in_isr else 'OUTSIDE'} the ISR{isr}"


def _truncation(one: Truncation) -> str:
    """Return a truncation in words. Its time is that of its epoch, because clocks of brokers were
    not compared."""
    when = "" if one.seen is None else f"; that epoch was seen {clock(one.seen)}"
    return f"broker-{one.cut.broker} {truncation_phrase(one.cut)}{when}"


def _fault(one: OpenFault) -> str:
    """Return a fault in words."""
    if one.start is None:
        return f"{one.label}, whose time is not recorded for this partition"
    servers = "unknown servers" if one.servers is None else ", ".join(one.servers) or "no server"
    end = "never proven healed" if one.end is None else f"healed {clock(one.end)}"
    return f"{one.label} on {servers}, from {clock(one.start)}, {end}"


def _watermarks(picture: LogPicture) -> str:
    """Return the recorded high watermarks in words."""
    if not picture.watermarks:
        return "not observed: no broker's checkpoint was collected"
    return ", ".join(f"broker-{broker} {offset:,}" for broker, offset in picture.watermarks)


def aloud(picture: LogPicture) -> str:
    """Return the picture in sentences."""
    return " ".join(_sentences(picture))


def _sentences(picture: LogPicture) -> Iterator[str]:
    subject = picture.subject
    yield f"This shows {title(picture)}."
    if subject.name is not None and subject.records > 1:
        producer, sequence = subject.name
        yield f"The example is producer {producer} sequence {sequence}."
    if picture.acked is None:
        yield f"How many records were acknowledged there is not known{_why(picture)}."
    else:
        first, last = picture.columns[0].first, picture.columns[-1].last
        yield (
            f"From offset {first:,} to {last:,}, {picture.acked:,} acknowledgements were received; "
            f"{_lost(picture)}."
        )
    yield from _led(picture)
    yield from _truncated(picture)
    yield from _faults(picture.faults)
    yield from _copies(picture)
    yield from _differing(picture)
    yield from _clients(picture)
    yield from _unobserved(picture)


def _lost(picture: LogPicture) -> str:
    if picture.is_lost_known:
        return f"{picture.lost:,} of these records are lost" if picture.lost else "none is lost"
    if picture.lost:
        return f"at least {picture.lost:,} of these records are lost"
    return "whether any of these records is lost is not known"


def _why(picture: LogPicture) -> str:
    if not picture.columns:
        return ": no offset is known"
    return next((f": {row.unobserved}" for row in picture.marks if row.unobserved), "")


def _led(picture: LogPicture) -> Iterator[str]:
    subject = picture.subject
    acked = [one for one in picture.leaders if one.part is Part.ACKED]
    did = "acknowledged" if subject.anomaly == "lost" else "appended"
    if subject.is_gone and len(subject.leaders) == 1 and subject.span is not None:
        epochs = _listed([str(one.epoch) for one in acked], "or")
        yield f"broker-{subject.leaders[0]} {did} them as leader of epoch {epochs}."
    elif subject.kind == CauseKind.UNANSWERED:
        yield "No broker answered for them (acks=0)."
    elif subject.is_gone:
        yield f"Which broker {did} them is not known."
    for one in picture.leaders:
        if one.part is Part.NEXT:
            where = "" if one.log_start is None else f" from offset {one.log_start:,}"
            who = "The next leader" if one.broker is None else f"broker-{one.broker}"
            yield f"{who} led next, in epoch {one.epoch}{where} ({_elected(one)})."


def _truncated(picture: LogPicture) -> Iterator[str]:
    for one in picture.truncations:
        yield f"broker-{one.cut.broker} {truncation_phrase(one.cut)}."
    if picture.subject.is_gone and picture.columns and not picture.truncations:
        yield "No broker's log shows a truncation of these records."


def _faults(faults: Sequence[OpenFault]) -> Iterator[str]:
    if not faults:
        yield "No active fault is recorded."
    for one in faults[:_NAMED_MAX]:
        where = f" on {_listed(one.servers)}" if one.servers else ""
        end = " until the end" if one.end is None else f" to {clock(one.end)}"
        when = "" if one.start is None else f" from {clock(one.start)}{end}"
        yield f"{one.label} was active{where}{when}."
    if len(faults) > _NAMED_MAX:
        yield f"{len(faults) - _NAMED_MAX} more faults were active."


def _copies(picture: LogPicture) -> Iterator[str]:
    if picture.subject.copies:
        found = _listed([f"{offset:,}" for offset in picture.subject.copies])
        yield f"The same record is at offsets {found}."


def _differing(picture: LogPicture) -> Iterator[str]:
    subject = picture.subject
    if len(subject.brokers) == 2:
        one, other = subject.brokers
        yield f"broker-{one} and broker-{other} hold different records there."


def _clients(picture: LogPicture) -> Iterator[str]:
    passed = next((row for row in picture.marks if row.sign is Sign.PASSED_OVER), None)
    if passed is None:
        return
    gap = [place for place, mark in enumerate(passed.marks) if mark.strip()]
    for row in picture.marks:
        if row.sign is Sign.GIVEN:
            got = sum(row.marks[place] == GIVEN for place in gap)
            another = sum(row.marks[place] == GIVEN_ANOTHER for place in gap)
            others = f", and at {another} another record" if another else ""
            yield f"Of {len(gap)} such records shown, {row.client} was given {got}{others}."


def _unobserved(picture: LogPicture) -> Iterator[str]:
    for marks in picture.marks:
        if marks.client and marks.unobserved:
            yield f"{marks.client} may have been given more: {marks.unobserved}."
    if picture.columns and all(row.broker is None for row in picture.logs):
        yield "No log of a replica is observed."
    for row in picture.logs:
        name = "final log" if row.broker is None else f"log of {label(row)}"
        if row.unobserved:
            yield f"The {name} is not observed: {row.unobserved}."
        elif any(slot and slot.content is Content.UNKNOWN for slot in row.slots):
            yield f"Parts of the {name} are not observed."


def _listed(names: Sequence[str], last: str = "and") -> str:
    """Return ``a, b and c``, with at most a few of them."""
    if len(names) > _NAMED_MAX:
        names = [*names[: _NAMED_MAX - 1], f"{len(names) - _NAMED_MAX + 1} more"]
    if len(names) < 2:
        return "".join(names) or "unknown"
    return f"{', '.join(names[:-1])} {last} {names[-1]}"
