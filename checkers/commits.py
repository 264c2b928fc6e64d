"""What the members of one consumer group committed of one partition: plain counts, no verdict.

- ``committed``: how many commits of the partition were answered without an error.
- ``commit_errors``: how many ended with one that does not tell whether they were kept (``info``).
- ``gone_back``: how often a commit that was answered, or what the coordinator told as committed
  (``fetched``), was lower than a commit that had been answered before. Before: its answer came, by
  the members' clocks, before the later one was asked for; so commits that were under way at once
  are in no order. Of a commit of the client library's own (without an ``invoke``) nobody knows when
  it was asked for: it is held against its own client's alone.
- ``past_shown``: how many commits were beyond what their member had been shown by then: higher by
  more than 1 than the last offset that it was shown since it was assigned the partition, by poll
  number; where it was shown nothing since, higher than where it began. Of the client library's own
  commits it is not told: they may be answered while a poll that they cover has not yet returned.

None as in :mod:`checkers.shown`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from checkers.indexes import Array
from checkers.shown import Assigned, Counts, added, at_least

COLUMNS = ("time", "group", "commit", "type", "offset", "poll", "error")
"""Of ``commits``, beside topic and partition."""

COUNTS = ("committed", "commit_errors", "gone_back", "past_shown")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a member committed of a partition.

    Attributes:
        rows: COLUMNS of ``commits``.
        whole: Whether ``rows`` are all, but for the last of a member that was crashed.
        polls, offsets: What it was shown, in the order in which it was.
        assigned: In their order.
        shown_whole: Whether these three are all, likewise.
        cut: Whether it was crashed.
    """

    rows: Sequence[Row]
    whole: bool
    polls: Array
    offsets: Array
    assigned: Sequence[Assigned]
    shown_whole: bool
    cut: bool


def counts(members: Sequence[Committed], *, whole: bool) -> Counts:
    """The counts of COUNTS. ``whole``: whether these are all members."""
    whole = whole and all(member.whole for member in members)
    types = [row["type"] for member in members for row in member.rows]
    return {
        "committed": at_least(types.count("ok"), whole),
        "commit_errors": at_least(types.count("info"), whole),
        "gone_back": at_least(_gone_back(members), whole),
        "past_shown": added([_past_shown(member) for member in members]) if whole else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """An answer: a commit's, or what is committed. ``asked`` is None where nobody knows."""

    offset: int
    asked: int | None
    answered: int
    commit: bool


def _gone_back(members: Sequence[Committed]) -> int:
    events = [list(_events(member)) for member in members]
    everyone = _Highest(event for mine in events for event in mine)
    back = 0
    for mine in events:
        own = _Highest(mine)
        for event in mine:
            before = (
                own.before(event.answered) if event.asked is None else everyone.before(event.asked)
            )
            back += before is not None and event.offset < before
    return back


class _Highest:
    """The highest commit by when it was answered."""

    def __init__(self, events: Iterable[_Event]) -> None:
        commits = (event for event in events if event.commit)
        in_order = sorted(commits, key=lambda event: event.answered)
        self._answered = [event.answered for event in in_order]
        self._highest = list(accumulate((event.offset for event in in_order), max))

    def before(self, time: int) -> int | None:
        """Of those answered before then; None where there was none."""
        count = bisect_left(self._answered, time)
        return self._highest[count - 1] if count else None


def _events(member: Committed) -> Iterator[_Event]:
    asked = {row["commit"]: row["time"] for row in member.rows if row["type"] == "invoke"}
    for row in member.rows:
        commit = row["type"] == "ok"
        # An error tells nothing of what is committed.
        if commit or (row["type"] == "fetched" and row["error"] is None):
            yield _Event(
                offset=row["offset"],
                asked=asked.get(row["commit"]) if commit else row["time"],
                answered=row["time"],
                commit=commit,
            )


def _past_shown(member: Committed) -> int | None:
    if not member.shown_whole:
        return None
    invoked = [row for row in member.rows if row["type"] == "invoke"]
    judged = {row["commit"] for row in invoked}
    answered = (row["commit"] for row in member.rows if row["type"] in ("ok", "fail", "info"))
    told = all(commit in judged for commit in answered)
    fetched = [row for row in member.rows if row["type"] == "fetched"]
    past = 0
    for row in invoked:
        limit = _limit(member, row, fetched)
        past += limit is not None and row["offset"] > limit
    return at_least(past, told)


def _limit(member: Committed, commit: Row, fetched: Sequence[Row]) -> int | None:
    """The highest offset that a commit may have; None where nobody knows."""
    if member.cut and commit["poll"] > member.polls.max(initial=0):
        # What it was shown last, before it was crashed, may be recorded nowhere.
        return None
    mine = [one for one in member.assigned if one.time <= commit["time"]]
    shown = int(np.searchsorted(member.polls, commit["poll"], side="right"))
    if shown and (not mine or member.polls[shown - 1] > mine[-1].poll):
        return int(member.offsets[shown - 1]) + 1
    told = [row["offset"] for row in fetched if row["time"] <= commit["time"]]
    began = [one.offset for one in mine[-1:]] + told[-1:]
    # Negative is none that is committed.
    return max((one for one in began if one is not None and one >= 0), default=None)
