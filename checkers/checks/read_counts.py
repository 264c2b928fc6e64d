"""The counts of one consumer, and of one group, of a partition."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks import claims
from ackproof.checkers.checks.claims import Claims
from ackproof.checkers.checks.group_offsets import (
    Committed,
    Furthest,
    ReadBack,
    furthest,
    read_back,
    told_until,
)
from ackproof.checkers.checks.read_anomalies import Coordinated
from ackproof.checkers.checks.reads import (
    Event,
    Passed,
    Seen,
    Steps,
    assignment_of,
    nonmonotonic,
    skipped,
    spans,
    unseen,
)
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.context.observed import Span
from ackproof.checkers.context.row_times import Expected
from ackproof.checkers.context.validity import Stale, Terms
from ackproof.checkers.index.partition_history import PartitionHistory

CLIENT_COUNTS = (
    "shown",
    "distinct",
    "again",
    "nonmonotonic",
    "skipped",
    "foreign",
    "inconsistent",
    "vanished",
    "unseen",
    "unread",
)

Counts = Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a client was shown of a partition.

    Attributes:
        events: Of its assignments; None where they are not all known.
        whole: Whether ``seen`` is all, but for the last of a client that was crashed.
        cut: Whether it was crashed.
        all_of_it: Whether it is a tail reader, which is to be shown everything.
        claims: What of it the final log or an ack disagrees with.
    """

    seen: Seen
    events: Sequence[Event] | None
    whole: bool
    cut: bool
    all_of_it: bool
    claims: Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReads:
    """What the checkers found in it; None where one could not look."""

    steps: Steps | None
    passed: Passed | None
    unseen: Array | None


def look_at_client(shown: Shown, history: PartitionHistory) -> ClientReads:
    """What the checkers of one consumer find."""
    seen = shown.seen
    # A file that is missing leaves a hole in what is known to have been shown; one that holds more
    # than its writer closed, rows that were shown once.
    known = shown.events is not None and shown.whole
    together = spans(seen, shown.events or ()) if known else None
    return ClientReads(
        steps=None if together is None else nonmonotonic(seen, together),
        passed=None if together is None else skipped(seen, together, history),
        unseen=unseen(seen, history) if shown.all_of_it and shown.whole else None,
    )


def client_counts(
    shown: Shown, found: ClientReads, contested: Claims, history: PartitionHistory, compacted: bool
) -> Counts:
    """The counts of COUNTS. ``contested``: acks that the final log disagrees with; ``compacted``:
    whether the log is."""
    seen, whole, complete = shown.seen, shown.whole, history.read.complete
    everything = whole and complete and history.sends_whole
    wrong = claims.overruled(claims.together([shown.claims, contested]), history)
    vanished = len(claims.vanished(shown.claims, history, compacted))
    highest = seen.highest
    foreign = seen.offset[seen.record == NONE]
    known: dict[str, int | None] = {
        "shown": at_least(len(seen.offset), whole),
        "distinct": at_least(_distinct(seen.offset), whole),
        "again": _again(shown),
        "foreign": at_least(_distinct(foreign), whole),
        "inconsistent": at_least(_distinct(wrong.offset), everything),
        "vanished": at_least(vanished, whole) if complete and not compacted else None,
        "nonmonotonic": None,
        "skipped": None,
        "unseen": None,
        "unread": None,
    }
    if found.steps is not None:
        known["nonmonotonic"] = at_least(len(found.steps.rows), whole)
    if found.passed is not None:
        known["skipped"] = at_least(len(found.passed.positions), complete)
    if found.unseen is not None:
        known["unseen"] = at_least(len(found.unseen), everything)
        above = history.shown_to_consumers(np.flatnonzero(history.log_offset > highest))
        # What a client was shown in its last moments, before it was crashed, is recorded nowhere.
        known["unread"] = (
            None if shown.cut else at_least(_distinct(history.log_offset[above]), complete)
        )
    return {name: known[name] for name in CLIENT_COUNTS}


def at_least(count: int, known: bool) -> int | None:
    """What was found; None where that is nothing and not everything could be looked at."""
    return count if count or known else None


def added(counted: Iterable[int | None]) -> int | None:
    """Of several partitions together, as :func:`at_least`."""
    values = list(counted)
    known = [value for value in values if value is not None]
    return at_least(sum(known), len(known) == len(values))


def _again(shown: Shown) -> int | None:
    if shown.events is None:
        return None
    offset = shown.seen.offset
    number = assignment_of(shown.seen.poll, shown.events, ("assigned",))
    order = np.lexsort((number, offset))
    same = (np.diff(offset[order]) == 0) & (np.diff(number[order]) != 0)
    return at_least(_distinct(offset[order][1:][same]), shown.whole)


def _distinct(offsets: Array) -> int:
    return len(np.unique(offsets))


# --- consumers ------------------------------------------------------------------------------------
#
# The consumers of one partition, what is promised to its groups, and what was counted of them: as
# data, for a work item and for what becomes of it.
#
# What each count is stands in :mod:`checkers.checks.read_counts` (of a client) and
# :mod:`checkers.checks.read_counts` (of a group).


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A client that was to read a partition, and the files that it left: ``polls`` of this
    partition, ``assignments`` and ``commits`` of all. ``..._whole``: whether that is all that was
    written, but for the last moments of who was crashed (``cut``). ``member``: of a group; else it
    is a tail reader. ``expected``: what the rows of these files must say."""

    client: str
    member: bool
    polls: list[str]
    assignments: list[str]
    commits: list[str]
    polls_whole: bool
    assignments_whole: bool
    commits_whole: bool
    cut: bool
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What is promised to a group, :class:`checkers.checks.read_anomalies.Coordinated`; ``name``:
    Kafka's ``group.id``."""

    name: str
    at_least_once: bool | None
    unpromised_before: int
    unknown_before: int
    stale: list[Stale]
    fault_bounds: list[int]
    fault_labels: list[str | None]
    peace_start: int
    peace_end: int

    @property
    def coordinated(self) -> Coordinated:
        return Coordinated(
            at_least_once=self.at_least_once,
            terms=Terms(
                unpromised_before=self.unpromised_before, unknown_before=self.unknown_before
            ),
            stale=tuple(self.stale),
            faults=FaultWindows(bounds=tuple(self.fault_bounds), labels=tuple(self.fault_labels)),
            peace=Span(self.peace_start, self.peace_end),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one partition: of a client, or where that is None of a group. ``group``
    is None for a tail reader, and where nothing tells the group of a member."""

    client: str | None
    group: str | None
    counts: Counts

    def plain(self) -> "Counted":
        """The same in Python's own numbers."""
        told = {name: None if many is None else int(many) for name, many in self.counts.items()}
        return replace(self, counts=told)


# --- commits --------------------------------------------------------------------------------------
#
# What the members of one consumer group committed of one partition, as counts.
#
# - ``committed``: how many commits of the partition were answered without an error.
# - ``commit_errors``: how many ended with one that does not tell whether they were kept (``info``).
#
# The others are how often a checker found what it looks for (``checkers.checks.catalogue``):
# ``commits_lost``, ``commits_regressed``, and of a group that is at-least-once
# ``skipped_by_commit``.
#
# None as in :mod:`checkers.checks.read_counts`.


GROUP_COUNTS = (
    "committed",
    "commit_errors",
    "commits_lost",
    "commits_regressed",
    "skipped_by_commit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroup:
    """A group, and what is known of it.

    Attributes:
        shown: By record number: whether one of its members was shown it.
        whole: Whether these are all members, and what they committed is known; but for the last
            moments of those who were crashed.
        shown_whole: Whether all that they were shown is known, likewise.
    """

    name: str
    members: Sequence[Committed]
    shown: Array
    whole: bool
    shown_whole: bool

    @property
    def cut(self) -> bool:
        """Whether a member was crashed, whose last commits are recorded nowhere."""
        return any(member.cut for member in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommits:
    """What the checkers found. ``passed``: numbers of the records that the group committed past and
    was never shown; None where nobody could look."""

    told: Sequence[ReadBack]
    furthest: Furthest
    passed: Array | None


def look_at_group(group: OfGroup, promise: Coordinated, history: PartitionHistory) -> GroupCommits:
    """What the checkers of one group find."""
    committed = furthest(group.members)
    may = promise.at_least_once is True and group.whole and group.shown_whole
    return GroupCommits(
        told=list(read_back(group.members, promise.stale, whole=group.whole)),
        furthest=committed,
        passed=_passed(group, committed, history) if may else None,
    )


def _passed(group: OfGroup, committed: Furthest, history: PartitionHistory) -> Array:
    until = min(int(committed.offset.max(initial=0)), told_until(group.members))
    missed = np.flatnonzero((history.first != NONE) & ~group.shown)
    passed: Array = missed[history.first_offset(missed) < until]
    return passed[np.argsort(history.first[passed])]


def group_counts(group: OfGroup, found: GroupCommits, history: PartitionHistory) -> Counts:
    """The counts of COUNTS."""
    types = [row["type"] for member in group.members for row in member.rows]
    lost = sum(one.lost for one in found.told)
    passed = None
    if found.passed is not None:
        passed = at_least(len(found.passed), history.read.complete and not group.cut)
    return {
        "committed": at_least(types.count("ok"), group.whole),
        "commit_errors": at_least(types.count("info"), group.whole),
        "commits_lost": at_least(lost, group.whole),
        "commits_regressed": at_least(len(found.told) - lost, group.whole and not group.cut),
        "skipped_by_commit": passed,
    }
