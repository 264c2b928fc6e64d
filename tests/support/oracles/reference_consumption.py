"""Anomalies of reads and commits, and their counts: a second implementation with sets and loops,
straight from the definitions in docs/checkers.md.

Shares no code with ``checkers``; slow, for comparison with it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.support.builders.consumers import Commit, MadeConsumer, Seen
from tests.support.builders.histories import Made

Identity = tuple[int | None, int | None]
Finding = tuple[str, int | None, int | None, int | None]
"""Anomaly, offset, producer, sequence."""

NEVER = 10**9


def findings(log: Made, consumers: Sequence[MadeConsumer]) -> Counter[Finding]:
    """All anomalies of consumers of one partition; its groups are at-least-once."""
    found = Counter([*_vanished(log, consumers), *_inconsistent(log, consumers)])
    for made in consumers:
        found.update(_of_one(made, log))
    for group in {made.group for made in consumers if made.group is not None}:
        members = [made for made in consumers if made.group == group]
        found.update(_read_back(members))
        found.update(_skipped_by_commit(members, log))
    return found


def _held(log: Made) -> dict[int, set[Identity]]:
    held: dict[int, set[Identity]] = {}
    for record in log.log:
        held.setdefault(record.offset, set()).add((record.producer, record.sequence))
    return held


def _acks(log: Made) -> dict[Identity, tuple[int | None, int]]:
    """Offset and time by record."""
    return {(s.producer, s.sequence): (s.offset, s.time) for s in log.sends if s.type == "ok"}


def _identity(row: Seen) -> Identity:
    return row.producer, row.sequence


def _vanished(log: Made, consumers: Sequence[MadeConsumer]) -> set[Finding]:
    if not log.complete:
        return set()
    shown = {(row.offset, *_identity(row)) for made in consumers for row in made.polls}
    held = _held(log)
    return {("vanished-read", *one) for one in shown if one[0] not in held and one[0] >= log.start}


def _inconsistent(log: Made, consumers: Sequence[MadeConsumer]) -> Iterator[Finding]:
    held, acks = _held(log), _acks(log)
    rows = [row for made in consumers for row in made.polls]
    for offset in {row.offset for row in rows}:
        claims = [(row.time, _identity(row)) for row in rows if row.offset == offset]
        claims += [(time, record) for record, (at, time) in acks.items() if at == offset]
        if offset in held:
            standing = held[offset]
        else:
            latest = max(time for time, _ in claims)
            standing = {record for time, record in claims if time == latest}
            assert len(standing) == 1 or len({r for _, r in claims}) == 1, "there is no last one"
        wrong = {record for _, record in claims} - standing
        if wrong:
            yield ("inconsistent-read", offset, None, None)


def _of_one(made: MadeConsumer, log: Made) -> Iterator[Finding]:
    held = _held(log)
    for begun, rows in _spans(made):
        for one, other in pairwise(rows):
            if other.offset <= one.offset:
                yield ("nonmonotonic-poll", other.offset, *_identity(other))
        offsets = {row.offset for row in rows}
        first = min(offsets) if begun is None else begun
        for offset, records in held.items():
            if first <= offset <= max(offsets) and offset not in offsets:
                yield from (("poll-skip", offset, *record) for record in records)
    if made.group is None:
        shown = {_identity(row) for row in made.polls}
        highest = max((row.offset for row in made.polls), default=-1)
        for record in _acks(log).keys() - shown:
            places = [offset for offset, records in held.items() if record in records]
            if places and min(places) < highest:
                yield ("unseen", min(places), *record)


def _spans(made: MadeConsumer) -> Iterator[tuple[int | None, list[Seen]]]:
    """Return the start of each span, and its rows."""
    begins = [one for one in made.assigned if one.event in ("assigned", "out-of-range")]
    ends = {one.poll for one in made.assigned if one.event in ("revoked", "lost")}
    by_number: dict[int, list[Seen]] = {}
    for row in made.polls:
        by_number.setdefault(sum(one.poll < row.poll for one in begins), []).append(row)
    for number, rows in by_number.items():
        begin = begins[number - 1] if number else None
        # Of the poll during which it was taken away and given again the order is unknown.
        mixed = {one.poll + 1 for one in begins if one.poll in ends}
        kept = [row for row in rows if row.poll not in mixed]
        known = begin is not None and begin.offset is not None and begin.offset >= 0
        if kept:
            begun = begin.offset if begin and known and len(kept) == len(rows) else None
            yield begun, kept


def _read_back(members: Sequence[MadeConsumer]) -> Iterator[Finding]:
    commits = [one for made in members for one in _commits(made)]
    told = [row for made in members for row in made.commits if row.type in ("fetched", "looked")]
    got_to = [row.offset + 1 for made in members for row in made.polls]
    # Offset 0 is where everybody begins: a member that was shown nothing may commit it.
    reached = max([0, *got_to, *(one[0] for one in commits)])
    for row in told:
        if row.offset > reached:
            yield ("commit-regressed", row.offset, None, None)
            continue
        # An observer in between records when it asked; it may have been told what came later.
        until = NEVER if row.type == "looked" else row.time
        answered = [one for one in commits if one[2] < row.time]
        if not answered:
            continue
        last = max(answered, key=lambda one: (one[2], one[0]))
        if row.offset < 0:
            yield ("commit-lost", last[0], None, None)
            continue
        same = [one for one in commits if one[0] == row.offset and one[1] < until]
        others = [one for one in answered if one[0] != row.offset]
        may_be_last = [one for one in same if not any(_came_after(c, one) for c in others)]
        older = same or any(one[0] > row.offset for one in others)
        if others and not may_be_last and older:
            yield ("commit-regressed", last[0], None, None)


Kept = tuple[int, int, int, str, bool]
"""Offset, asked, answered, by whom, and whether it is known when it was asked for."""


def _commits(made: MadeConsumer) -> Iterator[Kept]:
    by_number: dict[int, list[Commit]] = {}
    for row in made.commits:
        if row.type not in ("fetched", "looked"):
            by_number.setdefault(row.commit, []).append(row)
    for rows in by_number.values():
        events = {row.type: row for row in rows}
        invoked, ok = events.get("invoke"), events.get("ok")
        if "fail" not in events:
            asked = invoked.time if invoked else 0
            answered = ok.time if ok else NEVER
            yield rows[0].offset, asked, answered, made.client, invoked is not None


def _came_after(one: Kept, other: Kept) -> bool:
    own = one[3] == other[3] and one[2] > other[2]
    return own or (one[4] and one[1] > other[2])


def _skipped_by_commit(members: Sequence[MadeConsumer], log: Made) -> Iterator[Finding]:
    shown = {_identity(row) for made in members for row in made.polls}
    reached = max((row.offset for m in members for row in m.commits if row.type == "ok"), default=0)
    for record in {(r.producer, r.sequence) for r in log.log if r.producer is not None} - shown:
        places = [r.offset for r in log.log if (r.producer, r.sequence) == record]
        if min(places) < reached:
            yield ("skipped-by-commit", min(places), *record)
