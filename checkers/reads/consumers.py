"""The consumers of one partition, what is promised to its groups, and what was counted of them: as
data, for a work item and for what becomes of it.

What each count is stands in :mod:`checkers.reads.shown` (of a client) and
:mod:`checkers.reads.commits` (of a group).
"""

from dataclasses import dataclass, replace

from ackproof.checkers.cluster.observed import Span
from ackproof.checkers.cluster.reach import FaultWindows
from ackproof.checkers.evidence.times import Expected
from ackproof.checkers.promises.terms import Stale, Terms
from ackproof.checkers.reads.anomalies import Coordinated
from ackproof.checkers.reads.shown import Counts


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
    """What is promised to a group, :class:`checkers.reads.anomalies.Coordinated`; ``name``: Kafka's
    ``group.id``."""

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
