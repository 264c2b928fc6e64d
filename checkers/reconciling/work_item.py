"""A partition to reconcile, as Spark hands it to a task: all that is to be known of it."""

from dataclasses import dataclass, field

from ackproof.checkers.autopsy.scene import Scene
from ackproof.checkers.cluster.faults import Partition
from ackproof.checkers.cluster.observed import Span
from ackproof.checkers.evidence.final_read import FinalRead
from ackproof.checkers.evidence.times import ANY, Expected
from ackproof.checkers.partition.sequences import RANGE
from ackproof.checkers.plugin_checks.work import PluginWork
from ackproof.checkers.promises.terms import Terms
from ackproof.checkers.reads.anomalies import Promises
from ackproof.checkers.reads.consumers import Consumer, Group
from ackproof.checkers.timeline.known import Timeline

Key = tuple[int, Partition]
"""A run, and a partition of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One partition to reconcile. ``sends``, ``log``: files, and whether they are all that was
    written; ``cut``: those of ``sends`` whose writer was crashed, so that its last moments are in
    none; ``read``, ``records``: what the final read reports; ``deleted_before``: the offset below
    which records were deleted by order; ``unpromised_before``, ``unknown_before``
    and ``unknown_in``: :class:`checkers.promises.terms.Terms`; ``moments``: when acks are counted
    (:class:`checkers.cluster.coverage.Moment`); ``shown_unpromised_before``,
    ``shown_unknown_before``: the terms of what consumers were shown; ``compacted``: whether its log
    is; ``consumers``: who was to read it; ``groups``: what is promised to them; ``brokers`` to
    ``uncompared``: :class:`checkers.replicas.collected.Copies`; ``agreement``: how it stands to the
    promise that replicas agree; ``timeline``: what was observed of its leaders, epochs and ISR;
    ``scene``: what is known around its losses; ``transactional``: whether it was written in
    transactions; ``committed``: files of what of it is committed, None where its consumers do not
    ask; ``expected``: what its sends must say; ``sequence_range``: so many sequence numbers are
    counted together (:mod:`checkers.partition.sequences`); ``plugin_work``: plug-ins' checkers
    that look at it."""

    run: int
    cell: str
    topic: str
    partition: int
    sends: list[str]
    cut: list[str]
    log: list[str]
    sends_whole: bool
    log_whole: bool
    read: FinalRead
    records: int | None
    deleted_before: int
    fault_bounds: list[int]
    fault_labels: list[str | None]
    unpromised_before: int
    unknown_before: int
    moments: list[str]
    moment_starts: list[int]
    moment_ends: list[int]
    shown_unpromised_before: int
    shown_unknown_before: int
    compacted: bool
    consumers: list[Consumer]
    groups: list[Group]
    brokers: list[int]
    copies: list[str]
    compared_to: int
    uncompared: list[str]
    agreement: str
    timeline: Timeline
    scene: Scene
    transactional: bool = False
    committed: list[str] | None = None
    expected: Expected = ANY
    sequence_range: int = RANGE
    unknown_in: list[tuple[int, int]] = field(default_factory=list)
    plugin_work: list[PluginWork] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """Which it is."""
        return self.run, (self.topic, self.partition)

    @property
    def recorded(self) -> bool:
        """Whether it has files at all: a run that never began has left none."""
        own = (self.sends, self.log, self.copies, self.committed)
        return any(own) or any(consumer.polls for consumer in self.consumers)

    @property
    def terms(self) -> Terms:
        """What is promised of it."""
        return Terms(
            unpromised_before=self.unpromised_before,
            unknown_before=self.unknown_before,
            unknown_in=tuple(Span(start, end) for start, end in self.unknown_in),
        )

    @property
    def promises(self) -> Promises:
        """What is promised of it, and to those who read it."""
        return Promises(
            acked=self.terms,
            shown=Terms(
                unpromised_before=self.shown_unpromised_before,
                unknown_before=self.shown_unknown_before,
            ),
            groups={group.name: group.coordinated for group in self.groups},
            compacted=self.compacted,
        )
