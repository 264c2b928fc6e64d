"""A second, plain implementation of the rules and of what is promised: dicts and loops, straight
from the definitions.

Shares no code with ``checkers``; slow and in memory, to be compared with it.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.support.builders.histories import Made, Send

Finding = tuple[str, int | None, int | None, int | None]
"""Anomaly, offset, producer, sequence."""


Record = tuple[int, int]
"""Producer and sequence."""


def findings(made: Made) -> set[Finding]:
    """All anomalies of one partition whose sends are all recorded."""
    places: dict[Record, list[int]] = defaultdict(list)
    for row in sorted(made.log, key=lambda row: row.offset):
        if row.producer is not None and row.sequence is not None and row.cell is None:
            places[row.producer, row.sequence].append(row.offset)
    invoked = {(event.producer, event.sequence) for event in made.sends}
    sent = {record: offsets for record, offsets in places.items() if record in invoked}
    found = _phantoms(made, invoked) | _misplaced(made, sent) | _in_log(made, sent)
    found |= _misrouted(made)
    found |= _at_one_offset(made, sent) | _acked_backwards(made)
    return found | (_gaps(made) if made.complete else set())


def _phantoms(made: Made, invoked: set[Record]) -> set[Finding]:
    return {
        ("phantom", row.offset, row.producer, row.sequence)
        for row in made.log
        if (row.producer, row.sequence) not in invoked and row.cell is None
    }


def _misrouted(made: Made) -> set[Finding]:
    strange = (row for row in made.log if row.cell is not None)
    return {("wrong-topic", row.offset, row.producer, row.sequence) for row in strange}


def _misplaced(made: Made, sent: dict[Record, list[int]]) -> set[Finding]:
    found: set[Finding] = set()
    for ack in (event for event in made.sends if event.type == "ok"):
        record = (ack.producer, ack.sequence)
        if record not in sent and made.complete:
            found.add(("lost", ack.offset, *record))
        if record in sent and ack.offset is not None and ack.offset not in sent[record]:
            found.add(("offset-mismatch", ack.offset, *record))
    return found


def _named_acks(made: Made) -> dict[Record, Send]:
    acks = (event for event in made.sends if event.type == "ok" and event.offset is not None)
    return {(ack.producer, ack.sequence): ack for ack in acks}


def _at_one_offset(made: Made, sent: dict[Record, list[int]]) -> set[Finding]:
    acks = _named_acks(made)
    found: set[Finding] = set()
    for record, ack in acks.items():
        assert ack.offset is not None
        others = [other for other in acks if acks[other].offset == ack.offset and other != record]
        if not others or ack.offset in sent.get(record, ()):
            continue
        theirs = any(ack.offset in sent.get(other, ()) for other in others)
        if theirs or any(acks[other].time > ack.time for other in others):
            found.add(("offset-mismatch", ack.offset, *record))
    return found


def _acked_backwards(made: Made) -> set[Finding]:
    acks = {
        record: ack.offset for record, ack in _named_acks(made).items() if ack.offset is not None
    }
    return {
        ("nonmonotonic-send", offset, *record)
        for record, offset in acks.items()
        if any(
            other[0] == record[0] and other[1] < record[1] and acks[other] > offset
            for other in acks
        )
    }


def _in_log(made: Made, sent: dict[Record, list[int]]) -> set[Finding]:
    failed = {(event.producer, event.sequence) for event in made.sends if event.type == "fail"}
    found: set[Finding] = set()
    for record, offsets in sent.items():
        if len(offsets) > 1:
            found.add(("duplicated", min(offsets), *record))
        if record in failed:
            found.add(("failed-but-present", min(offsets), *record))
        later = [other for other in sent if other[0] == record[0] and other[1] > record[1]]
        if any(min(sent[other]) < min(offsets) for other in later):
            found.add(("reordered", min(offsets), *record))
    return found


def _gaps(made: Made) -> set[Finding]:
    held = {row.offset for row in made.log}
    missing = [offset for offset in range(made.start, made.end) if offset not in held]
    return {("offset-gap", offset, None, None) for offset in missing if offset - 1 not in missing}


class Seen(NamedTuple):
    """A partition was seen with this leader, epoch and ISR."""

    time: int
    leader: int
    epoch: int
    isr: frozenset[int]


class Struck(NamedTuple):
    """These brokers lost data from their disks."""

    time: int
    brokers: frozenset[int]


def kept_by_some_member(events: Sequence[Seen | Struck], acked: int) -> bool:
    """Whether, at every moment, some member of the ISR has what it had when it was acked. A member
    has what was acked after it was struck, because nothing is acked without it.

    For events far apart, in the order of time; acks=all.
    """
    isr: frozenset[int] = frozenset()
    lost_in: set[int] = set()
    outside: set[int] = set()
    struck_at: dict[int, int] = {}
    for event in events:
        if isinstance(event, Struck):
            lost_in |= event.brokers
            outside -= event.brokers
            outside |= event.brokers - isr
            struck_at |= dict.fromkeys(event.brokers, event.time)
            if isr and isr <= lost_in and acked < min(struck_at[b] for b in isr):
                return False
        else:
            back = {b for b in outside if b in event.isr}
            lost_in -= back
            outside -= back
            outside |= {b for b in lost_in if b not in event.isr}
            isr = event.isr
            if isr and isr <= lost_in and acked < min(struck_at[b] for b in isr):
                return False
    return True


def elected_by_the_isr(events: Sequence[Seen | Struck], acked: int) -> bool | None:
    """Whether every leader elected after an ack was of the ISR seen before; None: not all seen. An
    ISR that a broker enters while there is no leader is the first half of an election outside."""
    seen = [event for event in events if isinstance(event, Seen)]
    answers: list[bool | None] = []
    for before, after in pairwise(seen):
        if after.time <= acked:
            continue
        if after.epoch - before.epoch > 1:
            answers.append(None)
        elif before.leader == after.leader == -1 and before.epoch == after.epoch:
            answers.append(after.isr <= before.isr)
        elif after.leader not in (before.leader, -1):
            answers.append(after.leader in before.isr)
    return False if False in answers else None if None in answers else True


def led_by_one(events: Sequence[Seen | Struck], acked: int) -> bool:
    """Whether the leader neither changed nor lost data after an ack with acks=1."""
    leader, epoch = None, 0
    for event in events:
        if isinstance(event, Struck):
            if event.time > acked and leader in event.brokers:
                return False
        else:
            changed = leader is not None and (leader != event.leader or event.epoch - epoch > 1)
            if (changed or event.leader < 0) and event.time > acked:
                return False
            leader, epoch = event.leader, event.epoch
    return True
