"""A second, plain implementation of the rules: dicts and loops, straight from the definitions.

Shares no code with ``checkers``; slow and in memory, to be compared with it.
"""

from collections import defaultdict

from made_histories import Made

Finding = tuple[str, int | None, int | None, int | None]
"""Anomaly, offset, producer, sequence."""


Record = tuple[int, int]
"""Producer and sequence."""


def findings(made: Made) -> set[Finding]:
    """All anomalies of one partition whose sends are all recorded."""
    places: dict[Record, list[int]] = defaultdict(list)
    for row in sorted(made.log, key=lambda row: row.offset):
        if row.producer is not None and row.sequence is not None:
            places[row.producer, row.sequence].append(row.offset)
    invoked = {(event.producer, event.sequence) for event in made.sends}
    sent = {record: offsets for record, offsets in places.items() if record in invoked}
    found = _phantoms(made, invoked) | _misplaced(made, sent) | _in_log(made, sent)
    return found | (_gaps(made) if made.complete else set())


def _phantoms(made: Made, invoked: set[Record]) -> set[Finding]:
    return {
        ("phantom", row.offset, row.producer, row.sequence)
        for row in made.log
        if (row.producer, row.sequence) not in invoked
    }


def _misplaced(made: Made, sent: dict[Record, list[int]]) -> set[Finding]:
    found: set[Finding] = set()
    for ack in (event for event in made.sends if event.type == "ok"):
        record = (ack.producer, ack.sequence)
        if record not in sent and made.complete:
            found.add(("lost", ack.offset, *record))
        if record in sent and ack.offset is not None and ack.offset not in sent[record]:
            found.add(("offset-mismatch", ack.offset, *record))
    return found


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
