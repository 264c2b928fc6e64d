"""**GroupsAreLog**: what a coordinator begins with is what stands in its log.

All that one coordinator leaves the next is its partition of ``__consumer_offsets``, where the last
record of a key counts: an offset that was deleted and comes back has its group read from where
nobody wanted it to, a generation that was forgotten is given out twice. So it is looked at twice:
when a coordinator has loaded it, and when it has given up the log's beginning; and both are tried
now and then while nobody loads it, and nothing is given up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import Moment
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.groups import Groups, Records
from ackproof.broker.groups.state import GroupState
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.server.groups.log_loading import load
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitValue,
    Value,
    decode,
)
from ackproof.broker.wire.records import records
from simulation.observer.logs.on_disk import batches_of
from simulation.violation import Violation

INVARIANT = "GroupsAreLog"

Offsets = Mapping[TopicPartition, tuple[int, int]]
"""What is committed, and at which offset of the log that stands."""


@dataclass(slots=True)
class Left:
    """What a log says of one group."""

    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    generation: GroupMetadataValue | None = None

    def __bool__(self) -> bool:
        return bool(self.offsets) or self.generation is not None


def left_in(log: PartitionLog) -> Mapping[str, Left] | None:
    """By group; None: the disk refuses to be read."""
    found: dict[str, Left] = {}
    try:
        for batch in batches_of(log):
            for record in records(batch):
                if record.offset >= log.log_start_offset:
                    _take(found, *decode(record.key, record.value), record.offset)
    except OSError:
        return None
    return {group: left for group, left in found.items() if left}


def left_by(records: Records) -> Mapping[str, Left]:
    """By group, if they were all that there is in a log."""
    found: dict[str, Left] = {}
    for offset, (key, value) in enumerate(records):
        _take(found, key, value, offset)
    return {group: left for group, left in found.items() if left}


def _take(found: dict[str, Left], key: Key, value: Value | None, offset: int) -> None:
    left = found.setdefault(key.group, Left())
    if isinstance(key, GroupMetadataKey):
        left.generation = value if isinstance(value, GroupMetadataValue) else None
        return
    tp = TopicPartition(key.topic, key.partition)
    left.offsets.pop(tp, None)
    if isinstance(value, OffsetCommitValue):
        left.offsets[tp] = value.offset, offset


def check(where: str, loaded: Mapping[str, Group], left: Mapping[str, Left]) -> None:
    """``loaded``: what a coordinator has made of a log in which that is ``left``; raises
    Violation."""
    if loaded.keys() != left.keys():
        strange = sorted(loaded.keys() ^ left.keys())
        raise Violation(INVARIANT, f"{where}: of groups {strange} one knows, the other does not")
    for name, group in loaded.items():
        in_log = left[name]
        known = {tp: (o.value.offset, o.stored_at) for tp, o in group.offsets.committed.items()}
        if known != in_log.offsets:
            what = f"of group {name} the offsets {known} are known, in the log are"
            raise Violation(INVARIANT, f"{where}: {what} {in_log.offsets}")
        if _as_known(group) != _as_written(in_log.generation):
            what = f"group {name} is {_as_known(group)}, in the log it is"
            raise Violation(INVARIANT, f"{where}: {what} {_as_written(in_log.generation)}")


def keeps(
    where: str,
    known: Mapping[str, Group],
    generations: Mapping[str, int],
    left: Mapping[str, Left],
) -> None:
    """That is all that is ``left`` in the log of a coordinator that knows these groups, and has
    stored these generations of theirs; of what is on its way nothing is said. Raises Violation."""
    for name, group in known.items():
        there = left.get(name, Left())
        in_log, latest = there.offsets, 0
        if there.generation is not None:
            latest = there.generation.generation
        if latest < generations.get(name, 0):
            what = f"{name} has generation {generations[name]}, in the log is {there.generation}"
            raise Violation(INVARIANT, f"{where}, which begins later: {what}")
        for tp in sorted(group.offsets.settled()):
            offset = group.offsets.committed[tp].value.offset
            if tp not in in_log or in_log[tp][0] != offset:
                what = f"{name} has committed {offset} of {tp}, in the log is {in_log.get(tp)}"
                raise Violation(INVARIANT, f"{where}, which begins later: {what}")


def written_again(where: str, on_their_way: Iterable[Records], again: Records) -> None:
    """If a log that is about to have these records were to begin with all there is ``again``, they
    would count in it; raises Violation. A commit that is appended in front of them, and committed
    later, would be gone with what the log begins behind."""
    due = {key: value for records in on_their_way for key, value in records}
    there = dict(again)
    for key, value in due.items():
        if there.get(key) != value:
            what = f"{value} is on its way to {key}, and would be {there.get(key)}"
            raise Violation(INVARIANT, f"{where}, written again: {what}")


def would_load(log: PartitionLog, config: GroupConfig, at: Moment) -> Mapping[str, Group] | None:
    """What another coordinator would make of the log just now; None: its disk is not read."""
    reading = load(log)
    try:
        while True:
            reading.send(None)  # it only lets others have their turn
    except StopIteration as end:
        return Groups(config, end.value, at).by_id
    except OSError:
        return None


def _as_known(group: Group) -> tuple[object, ...]:
    members = {
        member.member_id: (
            member.instance_id, member.client_id, member.client_host, member.rebalance_timeout_ms,
            member.session_timeout_ms, member.metadata(group.protocol), member.assignment,
        )
        for member in group.members
    }  # fmt: skip
    leads = group.members.leader
    kind, since = group.protocol_type, group.since_ms
    return group.state, since, group.generation, leads, kind, group.protocol, members


def _as_written(value: GroupMetadataValue | None) -> tuple[object, ...]:
    """Its members need not notice that another one coordinates."""
    if value is None:
        return GroupState.EMPTY, None, 0, None, None, None, {}
    members = {
        member.member_id: (
            member.group_instance_id, member.client_id, member.client_host,
            member.rebalance_timeout, member.session_timeout, member.subscription,
            member.assignment,
        )
        for member in value.members
    }  # fmt: skip
    state = GroupState.STABLE if members else GroupState.EMPTY
    kind, since = value.protocol_type or None, value.current_state_timestamp
    return state, since, value.generation, value.leader, kind, value.protocol, members
