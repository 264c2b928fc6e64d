"""What the members of one consumer group committed of one partition, as counts.

- ``committed``: how many commits of the partition were answered without an error.
- ``commit_errors``: how many ended with one that does not tell whether they were kept (``info``).

The others are how often a checker found what it looks for (``checkers.catalogue``):
``commits_lost``, ``commits_regressed``, and of a group that is at-least-once ``skipped_by_commit``.

None as in :mod:`checkers.reads.shown`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.reads.anomalies import Coordinated
from ackproof.checkers.reads.offsets import (
    Committed,
    Furthest,
    ReadBack,
    furthest,
    read_back,
    told_until,
)
from ackproof.checkers.reads.shown import Counts, at_least

COUNTS = (
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
class Looked:
    """What the checkers found. ``passed``: numbers of the records that the group committed past and
    was never shown; None where nobody could look."""

    told: Sequence[ReadBack]
    furthest: Furthest
    passed: Array | None


def looked(group: OfGroup, promise: Coordinated, history: PartitionHistory) -> Looked:
    """What the checkers of one group find."""
    committed = furthest(group.members)
    may = promise.at_least_once is True and group.whole and group.shown_whole
    return Looked(
        told=list(read_back(group.members, promise.stale, whole=group.whole)),
        furthest=committed,
        passed=_passed(group, committed, history) if may else None,
    )


def _passed(group: OfGroup, committed: Furthest, history: PartitionHistory) -> Array:
    until = min(int(committed.offset.max(initial=0)), told_until(group.members))
    missed = np.flatnonzero((history.first != NONE) & ~group.shown)
    passed: Array = missed[history.first_offset(missed) < until]
    return passed[np.argsort(history.first[passed])]


def counts(group: OfGroup, found: Looked, history: PartitionHistory) -> Counts:
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
