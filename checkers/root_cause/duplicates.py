"""Root causes of records that are in the log more than once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks.records import renewed
from ackproof.checkers.context import status
from ackproof.checkers.context.status import GuaranteeStatus
from ackproof.checkers.context.validity import ValidityWindow
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.index.raw_logs import ProducerPosition, Session, written
from ackproof.checkers.root_cause.causes import CauseKey, attributed_faults, reported
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import RootCauses
from ackproof.checkers.root_cause.narratives import fault_phrases, faults_on, labels
from ackproof.checkers.root_cause.partition_context import (
    ContextFault,
    LeadershipTerm,
    PartitionContext,
)
from ackproof.checkers.root_cause.rows import isrs, of_rows
from ackproof.checkers.verdict import Cause
from ackproof.history.cell import LIBRDKAFKA
from ackproof.history.storage import located


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRecord:
    """A record that is in the log more than once.

    Attributes:
        record: Its number.
        offsets, epochs: The offsets and epochs of its copies in the order of the log; NONE for an
            unknown epoch.
        written: The session and sequence number of each copy from raw logs. Empty if those of a
            copy are unknown.
        asked, answered: The time of the send, and of the answer to the client, or NONE.
    """

    record: int
    offsets: Sequence[int]
    epochs: Sequence[int]
    written: Sequence[ProducerPosition]
    asked: int
    answered: int

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions in which it was written, each once."""
        return tuple(dict.fromkeys(one.session for one in self.written))

    @property
    def led(self) -> tuple[int, ...]:
        """The epochs that hold it, each once."""
        return tuple(dict.fromkeys(epoch for epoch in self.epochs if epoch != NONE))


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatNarrative:
    """The narrative of several repeated records that were in progress at the same time.

    Attributes:
        kind: The kind of the cause.
        repeats: The records.
        leadership_terms: The leadership terms that hold them. Terms with an unknown leader are left
            out.
        epochs: The epochs that hold them.
        sessions: As in :class:`RepeatedRecord`.
        acked: Whether the acks name the last copy of each record. None if that differs, or there
            are no acks.
        faults: The faults that were active while they were in progress.
        disks: The faults that took data from the disk of the leader that appended a later copy.
        why: A clause that says what is unexplained or missing.
    """

    kind: CauseKind
    repeats: Sequence[RepeatedRecord]
    leadership_terms: Sequence[LeadershipTerm]
    epochs: Sequence[int]
    sessions: Sequence[Session]
    acked: bool | None
    faults: Sequence[ContextFault]
    disks: Sequence[ContextFault]
    why: str


def narratives(
    repeats: Sequence[RepeatedRecord], history: PartitionHistory, context: PartitionContext
) -> list[RepeatNarrative]:
    """Return the narratives of all records, in the order of the sends."""
    found = []
    for burst in _bursts(repeats):
        explained = [(_explained(one, history, context), one) for one in burst]
        keyed = sorted(explained, key=lambda pair: _key(*pair))
        for _, pairs in groupby(keyed, key=lambda pair: _key(*pair)):
            alike = list(pairs)
            (kind, why), _ = alike[0]
            found.append(_narrative(kind, why, [one for _, one in alike], history, context))
    return found


def _key(explained: tuple[CauseKind, str], one: RepeatedRecord) -> tuple[object, ...]:
    return *explained, one.led, one.sessions


def _bursts(repeats: Sequence[RepeatedRecord]) -> Iterator[list[RepeatedRecord]]:
    """Yield groups of records that were in progress at the same time: each was sent before all of
    the earlier ones were answered."""
    some: list[RepeatedRecord] = []
    end = NONE
    for one in sorted(repeats, key=lambda one: one.asked):
        if some and one.asked > end:
            yield some
            some = []
        some.append(one)
        end = max(end, one.asked, one.answered)
    if some:
        yield some


def _narrative(
    kind: CauseKind,
    why: str,
    some: Sequence[RepeatedRecord],
    history: PartitionHistory,
    context: PartitionContext,
) -> RepeatNarrative:
    known = _leadership_terms(context)
    epochs = some[0].led
    leadership_terms = [known[epoch] for epoch in epochs if epoch in known]
    since = min(one.asked for one in some)
    until = max(max(one.asked, one.answered) for one in some)
    named = {
        int(history.acked_offset[one.record]) == one.offsets[-1]
        if history.fate[one.record] == Fate.ACKED and history.acked_offset[one.record] != NONE
        else None
        for one in some
    }
    return RepeatNarrative(
        kind=kind,
        repeats=some,
        leadership_terms=leadership_terms,
        epochs=epochs,
        sessions=some[0].sessions,
        acked=named.pop() if len(named) == 1 else None,
        faults=faults_on(context, since, until, [term.leader for term in leadership_terms]),
        disks=_disks(some[0], context),
        why=why,
    )


def _explained(
    one: RepeatedRecord, history: PartitionHistory, context: PartitionContext
) -> tuple[CauseKind, str]:
    """Return the kind, and for an unexplained or unknown one the reason."""
    numbered = [told.producer_id != NONE for told in one.written]
    if not context.sender.idempotent and not any(numbered):
        against = _never_resent(one, history, context)
        if against:
            return CauseKind.UNEXPLAINED, against
        known = _leadership_terms(context)
        leaders = {known[epoch].leader for epoch in one.led if epoch in known}
        return (CauseKind.RETRIED_AT_NEXT_LEADER if len(leaders) > 1 else CauseKind.RETRIED), ""
    if not one.written:
        return (
            CauseKind.UNKNOWN,
            "no raw log shows in which producer session each copy was written",
        )
    if not all(numbered):
        return (
            CauseKind.UNEXPLAINED,
            "not all copies have a producer id, although the producer is idempotent",
        )
    return _numbered(one, context)


def _numbered(one: RepeatedRecord, context: PartitionContext) -> tuple[CauseKind, str]:
    # The client itself writes the session and the sequence number, so it certainly sent the record
    # again.
    if len(one.sessions) == len(one.written):
        return CauseKind.NEW_SESSION, ""
    if len(set(one.written)) == len(one.written):
        return CauseKind.RENUMBERED, ""
    if _disks(one, context):
        return CauseKind.FORGOTTEN, ""
    why = (
        "they have the same producer id, epoch and sequence number, which every log must recognise"
    )
    return CauseKind.UNEXPLAINED, why


def _never_resent(one: RepeatedRecord, history: PartitionHistory, context: PartitionContext) -> str:
    """Return why the client cannot have sent the record again, or an empty string if it may
    have."""
    if context.sender.retries == 0:
        return "with retries=0 no record is sent again"
    if history.fate[one.record] != Fate.ACKED or one.answered == NONE:
        return ""
    if one.asked != NONE and one.answered - one.asked < context.sender.resends_after:
        return "they were acked before the client could have sent anything again"
    known = _leadership_terms(context)
    for epoch in one.led:
        if epoch in known and one.answered < known[epoch].elected_after:
            return f"they were acked before epoch {epoch} had a leader"
    return ""


def _disks(one: RepeatedRecord, context: PartitionContext) -> list[ContextFault]:
    """Return the faults that took data, after the send, from the disk of a leader that appended a
    later copy. The log's producer state may have been lost with it."""
    known = _leadership_terms(context)
    leaders = {known[epoch].leader for epoch in one.epochs[1:] if epoch in known}
    until = max(one.asked, one.answered)
    return [
        fault
        for fault in context.faults
        if fault.took >= one.asked and fault.start <= until and any(map(fault.affected, leaders))
    ]


def _leadership_terms(context: PartitionContext) -> Mapping[int, LeadershipTerm]:
    return {term.epoch: term for term in context.leadership_terms}


def repeats_of(
    found: Mapping[int, Sequence[int]],
    history: PartitionHistory,
    written: Mapping[int, ProducerPosition],
) -> list[RepeatedRecord]:
    """Return the records of :attr:`checkers.index.partition_history.PartitionHistory.copies`, in
    its order."""
    offsets = [offset for of_one in found.values() for offset in of_one]
    epochs = iter(history.epoch_at(np.array(offsets, dtype=np.int64)).tolist())
    return [
        RepeatedRecord(
            record=record,
            offsets=of_one,
            epochs=[next(epochs) for _ in of_one],
            written=[written[at] for at in of_one if at in written]
            if all(at in written for at in of_one)
            else [],
            asked=int(history.asked[record]),
            answered=int(history.answered[record]),
        )
        for record, of_one in found.items()
    ]


# --- telling --------------------------------------------------------------------------------------
#
# The narrative of records that are in the log more than once, in one sentence.


_TIMES = {2: "twice", 3: "three times"}
_NAMED_MAX = 3


def sentence(narrative: RepeatNarrative, client: str = "", acks: str = "") -> str:
    """Return a sentence that says why these records are in the log more than once. ``client`` is
    the library that sent them, and ``acks`` the setting of its cell."""
    return "; ".join(_parts(narrative, client, acks)) + "."


def _parts(narrative: RepeatNarrative, client: str, acks: str) -> Iterator[str]:
    match narrative.kind:
        case CauseKind.RETRIED if acks == "0":
            yield (
                "the connection broke while the producer wrote, and the producer sent these "
                "records again, as expected without enable.idempotence"
            )
        case CauseKind.RETRIED:
            yield (
                "the answer to the first attempt was lost with the connection or came too "
                "late, and the producer sent these records again, as expected without "
                "enable.idempotence"
            )
        case CauseKind.RETRIED_AT_NEXT_LEADER:
            yield (
                "the leader changed before the first attempt was answered, and the producer "
                "sent these records again, as expected without enable.idempotence"
            )
        case CauseKind.NEW_SESSION:
            yield (
                f"the producer began another session ({_sessions(narrative)}) and sent these "
                f"records again, which no log can recognise (KIP-98){_known_of(client)}"
            )
        case CauseKind.RENUMBERED:
            yield (
                "the producer sent these records again under other sequence numbers "
                f"({_sessions(narrative)})"
            )
        case CauseKind.FORGOTTEN:
            yield (
                f"{labels(narrative.disks)} took data from the disk of "
                f"{_leader(narrative, -1)}, which therefore did not recognise the retry "
                f"({_sessions(narrative)})"
            )
        case _:
            pass
    yield _appended(narrative)
    yield from _acked(narrative)
    asked = [one.asked for one in narrative.repeats]
    told = list(fault_phrases(narrative.faults, min(asked), max(asked)))
    yield from told or ["no fault was active"]
    if narrative.kind is CauseKind.UNEXPLAINED:
        yield f"nothing in the history explains it: {narrative.why}"
    elif narrative.kind is CauseKind.UNKNOWN:
        yield f"the cause is unknown: {narrative.why}"


def _known_of(client: str) -> str:
    return ", as librdkafka does: confluentinc/librdkafka#4953" if client == LIBRDKAFKA else ""


def _sessions(narrative: RepeatNarrative) -> str:
    return ", then ".join(f"producer id {who} epoch {epoch}" for who, epoch in narrative.sessions)


def _appended(narrative: RepeatNarrative) -> str:
    most = max(len(one.offsets) for one in narrative.repeats)
    if not narrative.epochs:
        return "the log does not show in which epochs they were appended"
    if len(narrative.epochs) == 1:
        least = min(len(one.offsets) for one in narrative.repeats)
        often = _TIMES.get(most, f"{most} times")
        upto = "up to " if least < most else ""
        return (
            f"{_leader(narrative, 0)} appended them {upto}{often}, as leader of epoch "
            f"{narrative.epochs[0]}"
        )
    if len(narrative.epochs) > _NAMED_MAX:
        first, last = narrative.epochs[0], narrative.epochs[-1]
        return f"they were appended in {len(narrative.epochs)} epochs from {first} to {last}"
    each = (
        f"{_leader(narrative, number)} as leader of epoch {epoch}"
        for number, epoch in enumerate(narrative.epochs)
    )
    return f"appended by {', then by '.join(each)}"


def _leader(narrative: RepeatNarrative, number: int) -> str:
    epoch = narrative.epochs[number] if narrative.epochs else None
    known = (f"broker-{one.leader}" for one in narrative.leadership_terms if one.epoch == epoch)
    return next(known, "an unknown broker")


def _acked(narrative: RepeatNarrative) -> Iterator[str]:
    if narrative.acked is not None:
        yield f"the ack names the {'last' if narrative.acked else 'first or another'} of the copies"


# --- performing -----------------------------------------------------------------------------------
#
# The root causes of records that are in a partition's log more than once.


DUPLICATED = "duplicated"


def explain_duplicates(
    history: PartitionHistory, context: PartitionContext, terms: ValidityWindow, run: int = 1
) -> RootCauses:
    """Return the root causes of all records that the rule ``duplicated`` finds in a partition."""
    found = history.copies
    repeats = repeats_of(found, history, _written(found, history, context))
    place = CauseKey(run, history.cell, DUPLICATED, history.topic, history.partition)
    promised = context.sender.idempotent and (
        status.of_partition(history.begun, terms) is GuaranteeStatus.PROMISED
    )
    explained = narratives(repeats, history, context)
    of_record = {
        one.record: (number, narrative)
        for number, narrative in enumerate(explained, start=1)
        for one in narrative.repeats
    }
    rows = [_row(one, *of_record[one.record], history) for one in repeats]
    when = np.array([history.time[one.record] for one in repeats], dtype=np.int64)
    in_sync = isrs(when, context).to_pylist()
    causes = [
        _cause(number, narrative, place, history, promised=promised)
        for number, narrative in enumerate(explained, start=1)
    ]
    return RootCauses(
        of_records=of_rows([{**row, "isr": isr} for row, isr in zip(rows, in_sync, strict=True)]),
        causes=[
            replace(one, sentence=_sentence(explained[one.number - 1], history, context))
            if one.number
            else one
            for one in reported(causes)
        ],
        faults=pa.array([attributed_faults(causes[row["cause"] - 1]) for row in rows], pa.string()),
    )


def _written(
    found: Mapping[int, Sequence[int]], history: PartitionHistory, context: PartitionContext
) -> Mapping[int, ProducerPosition]:
    """Return the sessions of the copies, from the logs of in-sync replicas, or else of any replica.
    A batch of the same epoch at the same offset is the same batch."""
    if history.written:
        return history.written
    offsets = [offset for of_one in found.values() for offset in of_one]
    epochs = history.epoch_at(np.array(offsets, dtype=np.int64)).tolist()
    # If an epoch is unknown, another batch could be taken for the copy.
    if NONE in epochs:
        return {}
    return written(list(map(located, context.directories)), dict(zip(offsets, epochs, strict=True)))


def _row(
    one: RepeatedRecord, number: int, narrative: RepeatNarrative, history: PartitionHistory
) -> dict[str, Any]:
    leaders = {term.epoch: term.leader for term in narrative.leadership_terms}
    acked = int(history.acked_offset[one.record])
    return {
        "cause": number,
        "kind": narrative.kind.value,
        "sent": None if one.asked == NONE else one.asked,
        "acked_offset": None if acked == NONE else acked,
        "offsets": list(one.offsets),
        "epochs": [None if epoch == NONE else epoch for epoch in one.epochs],
        "leaders": [leaders.get(epoch) for epoch in one.epochs],
        "producer_ids": [told.producer_id for told in one.written] or None,
        "producer_epochs": [told.producer_epoch for told in one.written] or None,
        "producer_sequences": [told.sequence for told in one.written] or None,
    }


def _cause(
    number: int,
    narrative: RepeatNarrative,
    place: CauseKey,
    history: PartitionHistory,
    *,
    promised: bool,
) -> Cause:
    """Return the cause without its sentence, which takes as long as the rest. Of many causes few
    are reported."""
    times = [int(history.time[one.record]) for one in narrative.repeats]
    firsts = [one.offsets[0] for one in narrative.repeats]
    # This agrees with the rule: no log can recognise a record that was sent in another session.
    broken = sum(not renewed(history, one.offsets) for one in narrative.repeats)
    return Cause(
        **place._asdict(),
        number=number,
        kind=narrative.kind.value,
        sentence="",
        records=len(narrative.repeats),
        promised=broken if promised else 0,
        first_offset=min(firsts),
        last_offset=max(firsts),
        first_time=min(times),
        last_time=max(times),
        leaders=tuple(dict.fromkeys(term.leader for term in narrative.leadership_terms)),
        epochs=tuple(narrative.epochs),
        faults=tuple(fault.label for fault in narrative.disks or narrative.faults),
    )


def _sentence(
    narrative: RepeatNarrative, history: PartitionHistory, context: PartitionContext
) -> str:
    return sentence(narrative, context.sender.client, history.timeline.acks)
