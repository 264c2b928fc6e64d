"""What consumers were shown, counted plainly: a second implementation, of sets and loops."""

from collections import Counter

from made_consumers import MadeConsumer, Seen
from made_histories import Made


def counts_of(made: MadeConsumer, log: Made) -> dict[str, int | None]:
    """The counts of :mod:`checkers.shown`."""
    stands: dict[int, set[tuple[int | None, int | None]]] = {}
    for record in log.log:
        stands.setdefault(record.offset, set()).add((record.producer, record.sequence))
    by_assignment: dict[int, list[int]] = {}
    for row in made.polls:
        by_assignment.setdefault(_assignment(made, row), []).append(row.offset)
    seen = {row.offset for row in made.polls}
    appearances = Counter(offset for mine in by_assignment.values() for offset in set(mine))
    skipped: set[int] = set()
    for number, mine in by_assignment.items():
        begun = [one.offset for one in made.assigned][number - 1] if number else None
        first = min(mine) if begun is None else begun
        skipped |= {offset for offset in stands if first <= offset <= max(mine)} - set(mine)
    pairs = list(zip(made.polls, made.polls[1:], strict=False))
    found = {
        "shown": len(made.polls),
        "distinct": len(seen),
        "again": len({o for m in by_assignment.values() for o, n in Counter(m).items() if n > 1}),
        "again_later": sum(count > 1 for count in appearances.values()),
        "back": sum(
            later.offset < one.offset and _assignment(made, later) == _assignment(made, one)
            for one, later in pairs
        ),
        "skipped": len(skipped),
        "foreign": len({row.offset for row in made.polls if row.producer is None}),
        "differs": len(
            {
                row.offset
                for row in made.polls
                if row.offset in stands and (row.producer, row.sequence) not in stands[row.offset]
            }
        ),
        "vanished": len(seen - stands.keys()),
        "unseen": len({o for o in stands if o < max(seen, default=-1)} - seen),
        "unread": len({o for o in stands if o > max(seen, default=-1)}),
    }
    certain = set() if log.complete else {"skipped", "differs", "unseen", "unread"}
    known: dict[str, int | None] = {n: (c or None) if n in certain else c for n, c in found.items()}
    known["vanished"] = found["vanished"] if log.complete else None
    if made.group is not None:
        known |= {"unseen": None, "unread": None}
    return known


def _assignment(made: MadeConsumer, row: Seen) -> int:
    return sum(one.poll < row.poll for one in made.assigned)
