"""The answers to clients during a run, compared with what is committed.

- **Fetch/uncommitted-record-read**: a consumer reads only records that are committed and stay.
- **ListOffsets/end-went-back**: no consumer gets an end that lies before what has been read
  (KIP-207).
- **ProducerIds/id-given-twice**: no producer id is given twice. Of two producers with one id, each
  would fence the other, or have its batches taken for the other's retries (KIP-98).
- **ProducerState/false-sequence-error**: a producer whose batches were acknowledged gets no error
  about a missing batch.
- **Groups/generation-went-back**: after a generation got its assignments, no earlier one begins,
  nor the same one with other members.
- **Groups/former-generation-commits**: no member of an earlier generation commits.
- **Groups/expired-member-kept**: no member commits that was silent for longer than its session
  while its coordinator ran.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch
from simulation.model.history import SentBatch
from simulation.model.log import BatchExtent
from simulation.model.observer import ClusterObserver
from simulation.model.partition import PartitionModel
from simulation.violation import Violation

EXPIRY_DELAY_S: Final = 1.0
"""The largest delay with which a coordinator may notice the end of a session, in seconds."""

Fail = Callable[[BaseException], None]
"""A function that ends the run with a violation."""


class AnswersModel:
    """Judges each answer to producers and consumers when it comes."""

    def __init__(self, observer: ClusterObserver, fail: Fail) -> None:
        self._observer = observer
        self._fail = fail
        self._ids: set[int] = set()

    def id_given(self, producer: int) -> None:
        """Judge an id that a producer was given."""
        if producer in self._ids:
            self._fail(
                Violation(
                    "ProducerIds/id-given-twice",
                    f"producer id {producer} is given twice",
                )
            )
        self._ids.add(producer)

    def read(self, tp: TopicPartition, batch: RecordBatch) -> None:
        """Judge a batch that a consumer has read."""
        partition = self._guaranteed(tp)
        if partition is None:
            return
        read = BatchExtent.of(batch)
        right = partition.committed.get(read.base)
        if read.base >= partition.deleted_below and right != read:
            self._fail(
                Violation(
                    "Fetch/uncommitted-record-read", f"{tp}: {read} was read, committed is {right}"
                )
            )
        partition.read_end = max(partition.read_end, read.next)

    def read_end(self, tp: TopicPartition) -> int:
        """Return the end of what consumers have read; 0 where nothing is guaranteed."""
        partition = self._guaranteed(tp)
        return 0 if partition is None else partition.read_end

    def end_answered(
        self, tp: TopicPartition, leader: int, epoch: int, end: int, read_end: int
    ) -> None:
        """Judge the ``end`` of ``tp`` in a leader's answer, of that epoch.

        ``read_end``: the end of what had been read when the consumer asked. A leader that was
        deposed without its knowledge may be behind.
        """
        partition = self._guaranteed(tp)
        if partition is None or not _leads(partition, leader) or end >= read_end:
            return
        assert partition.state is not None
        if partition.state.leader_epoch == epoch:
            what = f"{tp}: consumers have read up to {read_end}, and leader {leader} says {end}"
            self._fail(Violation("ListOffsets/end-went-back", what))

    def sending(self, sent: SentBatch) -> None:
        """Note that a batch is about to be sent to ``sent.asked``."""
        sent.sent_to_epoch = self._observer.epoch_led_by(sent.sent_to, sent.tp)

    def sequence_rejected(self, sent: SentBatch) -> None:
        """Judge the rejection of a batch whose predecessors were all acknowledged. Deletion of
        records also deletes a log's state of producers."""
        partition, epoch = self._guaranteed(sent.tp), sent.sent_to_epoch
        if partition is None or partition.deleted_below or epoch is None:
            return
        if self._observer.epoch_led_by(sent.sent_to, sent.tp) != epoch:
            return
        if self._observer.topics[sent.tp.topic].topic_id == sent.topic_id:
            what = f"{sent.tp}: leader {sent.sent_to} misses what comes before {sent.sequence}"
            self._fail(
                Violation(
                    "ProducerState/false-sequence-error", f"{what} of producer {sent.producer}"
                )
            )

    def _guaranteed(self, tp: TopicPartition) -> PartitionModel | None:
        """Return the partition, or None if nothing is guaranteed, or not everything any more."""
        partition = self._observer.find(tp)
        if partition is None or partition.ended_guarantees or not partition.checks_data:
            return None
        return partition


def _leads(partition: PartitionModel, broker: int) -> bool:
    return partition.state is not None and partition.state.leader == broker


@dataclass(slots=True)
class _Group:
    assigned: int = -1
    """The highest generation in which a member was given an assignment."""
    members: dict[int, frozenset[str]] = field(default_factory=dict)
    """The members of each generation, as its leader learned them."""


class _Contact(NamedTuple):
    """The latest time at which a member was heard from, by which replica, and in which epoch."""

    at: float
    by: Partition | None
    epoch: int | None


class RequestContext(NamedTuple):
    """The knowledge at the time when a member sent a request."""

    assigned: int
    """The highest generation with assignments."""
    coordinator: int
    epoch: int | None
    """The epoch in which the coordinator led the group's partition. None means that it did not
    lead, or had not learned that it does."""
    deletions: int = 0
    """The number of times the group had been deleted."""
    last_contact: _Contact | None = None
    """The time when the member was last heard from. None means that an earlier request had no
    answer, or an error, and may have counted."""


class GenerationsModel:
    """A judge of each answer of a group's coordinator when it comes. A coordinator stores what it
    gives out, so its successor knows it."""

    def __init__(self, observer: ClusterObserver, fail: Fail) -> None:
        self._observer = observer
        self._fail = fail
        self._groups: dict[tuple[str, int], _Group] = {}
        """The groups, by name and by the number of times that they had been deleted."""
        self._contacts: dict[tuple[str, str], _Contact] = {}

    def request_context(self, group: str, coordinator: int, member: str = "") -> RequestContext:
        """Return what is known before a request is sent to ``coordinator``."""
        home = self._home(group)
        epoch = None if home is None else self._observer.epoch_led_by(coordinator, home)
        contact = self._contacts.pop((group, member), None)
        deletions = self._observer.group_ends[group]
        return RequestContext(self._of(group).assigned, coordinator, epoch, deletions, contact)

    def joined(
        self, group: str, generation: int, members: frozenset[str], context: RequestContext
    ) -> None:
        """Judge an answer to JoinGroup; ``members``: all members, if it went to their leader."""
        known = self._of(group).members
        if self._is_judged(group, context):
            self._require(
                generation >= context.assigned,
                "Groups/generation-went-back",
                f"group {group}: generation {generation} begins after {context.assigned}",
            )
            former = known.get(generation, members) if generation == context.assigned else members
            self._require(
                not members or former == members,
                "Groups/generation-went-back",
                f"group {group}: generation {generation} had {sorted(former)}, "
                f"and begins again with {sorted(members)}",
            )
        if members:
            known[generation] = members

    def synced(self, group: str, generation: int) -> None:
        """Note that a member was given its assignment."""
        known = self._of(group)
        known.assigned = max(known.assigned, generation)

    def committed(self, group: str, generation: int, context: RequestContext) -> None:
        """Judge a commit that was accepted."""
        self._require(
            generation >= context.assigned or not self._is_judged(group, context),
            "Groups/former-generation-commits",
            f"group {group}: generation {generation} commits, {context.assigned} had begun",
        )

    def request_accepted(
        self,
        group: str,
        member: str,
        context: RequestContext,
        *,
        session_s: float,
        asked_at: float,
        answered_at: float,
    ) -> None:
        """Judge the acceptance of a member's request that was sent at ``asked_at``."""
        home = self._home(group)
        if home is None:
            return
        by, last = self._observer.hosted(context.coordinator, home), context.last_contact
        if last is not None and last.by is by and last.epoch == context.epoch:
            ran_since = self._observer.pause_changed_at.get(context.coordinator, -1.0) < last.at
            self._require(
                asked_at <= last.at + session_s + EXPIRY_DELAY_S
                or not ran_since
                or not self._is_judged(group, context),
                "Groups/expired-member-kept",
                f"group {group}: broker {context.coordinator} accepts member {member}, which was "
                f"silent for {asked_at - last.at:.1f} s",
            )
        self._contacts[group, member] = _Contact(answered_at, by, context.epoch)

    def _of(self, group: str) -> _Group:
        key = group, self._observer.group_ends[group]
        return self._groups.setdefault(key, _Group())

    def _home(self, group: str) -> TopicPartition | None:
        topic = self._observer.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        return TopicPartition(OFFSETS_TOPIC, partition_for(group, len(topic.partitions)))

    def _is_judged(self, group: str, context: RequestContext) -> bool:
        """Return whether the answer counts: not after a permitted loss in ``__consumer_offsets``,
        not from a deposed coordinator, and not if the group was deleted meanwhile."""
        home = self._home(group)
        partition = None if home is None else self._observer.find(home)
        if home is None or partition is None or context.epoch is None:
            return False
        if context.deletions != self._observer.group_ends[group]:
            return False
        leads_still = self._observer.epoch_led_by(context.coordinator, home) == context.epoch
        return leads_still and partition.checks_data and not partition.ended_guarantees

    def _require(self, condition: bool, invariant: str, what: str) -> None:
        if not condition:
            self._fail(Violation(invariant, what))
