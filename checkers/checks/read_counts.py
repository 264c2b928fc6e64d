"""Counts of the reads of one consumer, and of the commits of one group, for one partition."""

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
from ackproof.checkers.checks.read_anomalies import GroupGuarantees
from ackproof.checkers.checks.reads import (
    ConsumerReads,
    Event,
    Passed,
    Steps,
    assignment_of,
    nonmonotonic,
    skipped,
    spans,
    unseen,
)
from ackproof.checkers.checks.tombstones import Missed, missed
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.context.observed import Span
from ackproof.checkers.context.row_times import Expected
from ackproof.checkers.context.validity import Stale, ValidityWindow
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
class ClientShown:
    """The reads of one client from a partition.

    Attributes:
        seen: The rows of its polls.
        events: The events of its assignments, or None if they are not complete.
        whole: Whether ``seen`` is complete, except for the last moments of a crashed client.
        cut: Whether the client was crashed.
        all_of_it: Whether it is a tail reader, which must read everything.
        claims: The claims of its reads that the final log or an ack contradicts.
    """

    seen: ConsumerReads
    events: Sequence[Event] | None
    whole: bool
    cut: bool
    all_of_it: bool
    claims: Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReads:
    """The findings of the checkers in the reads of one client. An attribute is None if the checker
    could not examine them."""

    steps: Steps | None
    passed: Passed | None
    unseen: Array | None
    missed: Missed | None


def check_client(shown: ClientShown, history: PartitionHistory) -> ClientReads:
    """Run the checkers of one consumer."""
    seen = shown.seen
    # A missing file leaves a gap in the known reads. A file with more rows than its writer closed
    # has rows of one read twice.
    known = shown.events is not None and shown.whole
    together = spans(seen, shown.events or ()) if known else None
    return ClientReads(
        steps=None if together is None else nonmonotonic(seen, together),
        passed=None if together is None else skipped(seen, together, history),
        unseen=unseen(seen, history) if shown.all_of_it and shown.whole else None,
        missed=None if together is None else missed(seen, together, history),
    )


def client_counts(
    shown: ClientShown,
    found: ClientReads,
    contested: Claims,
    history: PartitionHistory,
) -> Counts:
    """Return the counts of CLIENT_COUNTS. ``contested`` has the acks that the final log
    contradicts."""
    seen, whole, complete = shown.seen, shown.whole, history.read.complete
    everything = whole and complete and history.sends_whole
    wrong = claims.overruled(claims.together([shown.claims, contested]), history)
    vanished = len(claims.vanished(shown.claims, history))
    highest = seen.highest
    foreign = seen.offset[seen.record == NONE]
    known: dict[str, int | None] = {
        "shown": at_least(len(seen.offset), whole),
        "distinct": at_least(_distinct(seen.offset), whole),
        "again": _again(shown),
        "foreign": at_least(_distinct(foreign), whole),
        "inconsistent": at_least(_distinct(wrong.offset), everything),
        "vanished": at_least(vanished, whole and not history.is_keyless) if complete else None,
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
        # The reads of a client in its last moments before a crash are not recorded.
        known["unread"] = (
            None if shown.cut else at_least(_distinct(history.log_offset[above]), complete)
        )
    return {name: known[name] for name in CLIENT_COUNTS}


def at_least(count: int, known: bool) -> int | None:
    """Return the count, or None if it is 0 and not everything could be examined."""
    return count if count or known else None


def added(counted: Iterable[int | None]) -> int | None:
    """Return the sum over several partitions, as :func:`at_least` defines it."""
    values = list(counted)
    known = [value for value in values if value is not None]
    return at_least(sum(known), len(known) == len(values))


def _again(shown: ClientShown) -> int | None:
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
# The consumers of one partition, the guarantees to its groups, and their counts, as data for a work
# item and for its result.


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A planned reader of a partition, with the files that it left.

    Attributes:
        client: The name of the client.
        member: Whether it is a member of a group. Otherwise it is a tail reader.
        polls: The files of ``polls`` of this partition.
        assignments: The files of ``assignments``, of all partitions.
        commits: The files of ``commits``, of all partitions.
        polls_whole, assignments_whole, commits_whole: Whether these are complete, except for the
            last moments of a crashed client.
        cut: Whether the client was crashed.
        expected: The values that the rows of these files must have.
    """

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
class PlannedGroupWork:
    """The guarantees to a group, as in :class:`checkers.checks.read_anomalies.GroupGuarantees`.
    ``name`` is Kafka's ``group.id``."""

    name: str
    at_least_once: bool | None
    unpromised_before: int
    unknown_before: int
    stale: list[Stale]
    fault_bounds: list[int]
    fault_labels: list[str | None]
    quiet_start: int
    quiet_end: int

    @property
    def coordinated(self) -> GroupGuarantees:
        return GroupGuarantees(
            at_least_once=self.at_least_once,
            terms=ValidityWindow(
                unpromised_before=self.unpromised_before, unknown_before=self.unknown_before
            ),
            stale=tuple(self.stale),
            faults=FaultWindows(bounds=tuple(self.fault_bounds), labels=tuple(self.fault_labels)),
            quiet_period=Span(self.quiet_start, self.quiet_end),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCounts:
    """The counts of one client, or of one group if ``client`` is None, for one partition. ``group``
    is None for a tail reader, and for a member whose group is unknown."""

    client: str | None
    group: str | None
    counts: Counts

    def plain(self) -> "ConsumerCounts":
        """Return the same counts as plain Python numbers."""
        told = {name: None if many is None else int(many) for name, many in self.counts.items()}
        return replace(self, counts=told)


# --- commits --------------------------------------------------------------------------------------
#
# The commits of the members of one consumer group for one partition, as counts.
#
# - ``committed``: the number of commits that were answered without an error.
# - ``commit_errors``: the number of commits with an error that does not say whether the offset was
#   stored (``info``).
#
# The others are the numbers of anomalies of the checkers (``checkers.checks.catalogue``):
# ``commits_lost``, ``commits_regressed``, and for an at-least-once group ``skipped_by_commit``.
#
# A count is None if it would be 0 and not everything could be examined.


GROUP_COUNTS = (
    "committed",
    "commit_errors",
    "commits_lost",
    "commits_regressed",
    "skipped_by_commit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecords:
    """A consumer group and its records.

    Attributes:
        name: Kafka's ``group.id``.
        members: The commits of its members.
        shown: Whether one of its members read each record, by record number.
        whole: Whether all members and all of their commits are known, except for the last moments
            of crashed members.
        shown_whole: Whether all of their reads are known, with the same exception.
    """

    name: str
    members: Sequence[Committed]
    shown: Array
    whole: bool
    shown_whole: bool

    @property
    def cut(self) -> bool:
        """Whether a member was crashed, so that its last commits are not recorded."""
        return any(member.cut for member in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommits:
    """The findings of the checkers in the commits of a group. ``passed`` has the numbers of the
    records below its commit that no member read, or None if that could not be examined."""

    told: Sequence[ReadBack]
    furthest: Furthest
    passed: Array | None


def check_group(
    group: GroupRecords, promise: GroupGuarantees, history: PartitionHistory
) -> GroupCommits:
    """Run the checkers of one group."""
    committed = furthest(group.members)
    may = promise.at_least_once is True and group.whole and group.shown_whole
    return GroupCommits(
        told=list(read_back(group.members, promise.stale, whole=group.whole)),
        furthest=committed,
        passed=_passed(group, committed, history) if may else None,
    )


def _passed(group: GroupRecords, committed: Furthest, history: PartitionHistory) -> Array:
    until = min(int(committed.offset.max(initial=0)), told_until(group.members))
    missed = np.flatnonzero((history.first != NONE) & ~group.shown)
    passed: Array = missed[history.first_offset(missed) < until]
    return passed[np.argsort(history.first[passed])]


def group_counts(group: GroupRecords, found: GroupCommits, history: PartitionHistory) -> Counts:
    """Return the counts of GROUP_COUNTS."""
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
