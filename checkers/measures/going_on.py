"""Whether a group goes on with a partition, when nothing keeps it from that: as counts.

- ``went_on``: how many records its members were shown that were sent in peace.
- ``owed_since``: when the first record was acked, in peace, behind all that its members were shown:
  behind the last time that any of them was shown anything, to its very end. Such a record stands in
  the final log, and none of them was ever shown it. NONE where there is none.
- ``holders``: how many members that were not crashed had the partition when clients were asked to
  end.

All of them are None of a group of which not everything is known, but for what was never recorded of
members that were crashed: that was before there was peace.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.cluster.observed import OBSERVATION_LAG_NS, Span
from ackproof.checkers.partition.indexes import Fate, PartitionHistory

COUNTS = ("went_on", "owed_since", "holders")


def going_on(
    history: PartitionHistory, shown: Array, last_shown: int, peace: Span, *, whole: bool
) -> Mapping[str, int | None]:
    """The first two counts.

    Args:
        shown: By record number: whether a member was shown it.
        last_shown: When a member was shown anything for the last time; NONE for never.
        whole: Whether that is all that members were shown.
    """
    if not whole:
        return dict.fromkeys(COUNTS[:2])
    standing = (history.first != NONE) & ~history.contradicted
    if history.visible is not None:
        standing[standing] = history.visible[history.first[standing]]
    # Two clients' clocks: a record may be shown before its producer hears of it, and seem to be
    # acked later than it was shown.
    behind = max(peace.start, last_shown + OBSERVATION_LAG_NS)
    owed = standing & (history.fate == Fate.ACKED) & ~shown & (history.time >= behind)
    in_peace = shown & (history.asked >= peace.start + OBSERVATION_LAG_NS)
    return {
        "went_on": int(np.count_nonzero(in_peace)),
        "owed_since": int(history.time[owed].min()) if owed.any() else NONE,
    }


def holders(events: Iterable[Sequence[tuple[int, str]]], until: int) -> int:
    """How many of the members had a partition at a time. ``events``: time and event of each row of
    its assignments, a member each."""
    last = ([event for time, event in mine if time < until][-1:] for mine in events)
    return sum(told in (["assigned"], ["out-of-range"]) for told in last)
