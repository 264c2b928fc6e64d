"""The rules of coordinators of groups: each broken once by hand, and kept once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Commit,
    Heartbeat,
    Leave,
    Moment,
    OffsetAndMetadata,
    OffsetsAnswer,
    Respond,
    Store,
    Stored,
    Sync,
    SyncAnswer,
    Tick,
)
from ackproof.broker.groups.groups import Records
from ackproof.broker.groups.state import GroupState
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import Millis, TopicPartition
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from simulation.model.groups import GroupsModel, StoredGroup, check_kept, check_loaded
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

HOME = TopicPartition("__consumer_offsets", 0)
TP = TopicPartition("t", 0)
GROUP, MEMBER, GENERATION = "g", "m", 3
NAMED = GroupMetadataKey(group=GROUP)
OFFSET = OffsetCommitKey(group=GROUP, topic=TP.topic, partition=TP.partition)


class Groups:
    """One stable group with one member, which a :class:`GroupsModel` follows."""

    def __init__(self) -> None:
        self.member = SimpleNamespace(member_id=MEMBER, session_timeout_ms=3_000, assignment=b"all")
        self.members = [self.member]
        group = SimpleNamespace(
            generation=GENERATION, state=GroupState.STABLE, members=Members(self.members),
            offsets=SimpleNamespace(committed={}, settled=set),
        )  # fmt: skip
        self.by_id: dict[str, Any] = {GROUP: group}
        self.again: Records = ((NAMED, stored_generation(GENERATION)),)
        self.replica = SimpleNamespace(role=Role.LEADER, leader_epoch=5, high_watermark=10)
        self.group = group
        self.log = SimpleNamespace(
            log_start_offset=0, log_end_offset=100, directory=Path("home"), read=refused
        )
        partition = SimpleNamespace(tp=HOME, replica=self.replica, log=self.log)
        self.shard: Any = Shard(groups=self, partition=partition)
        self.model = GroupsModel()
        self.model.loaded(1, self.shard, 0.0)

    def snapshot(self) -> Records:
        return self.again

    def at(self, now: int) -> Moment:
        return Moment(Millis(now), now)

    def step(
        self, event: Any, *effects: Any, leaves: bool = False, unnoticed: bool = False
    ) -> None:
        if leaves:
            self.members.clear()
            if not unnoticed:
                self.group.state = GroupState.EMPTY
        self.model.stepped(self.shard, event, effects)

    def commit(self, request: int = 1) -> Commit:
        offsets = {TP: OffsetAndMetadata(offset=7)}
        return Commit(
            request=request, at=self.at(0), group=GROUP, member_id=MEMBER,
            generation=GENERATION, offsets=offsets,
        )  # fmt: skip

    def sync(self) -> Sync:
        return Sync(request=2, at=self.at(0), group=GROUP, member_id=MEMBER, generation=GENERATION)

    def heartbeat(self, now: int) -> None:
        event = Heartbeat(
            request=3, at=self.at(now), group=GROUP, member_id=MEMBER, generation=GENERATION
        )
        self.step(event, Respond(request=3, answer=OffsetsAnswer()))


class Shard(SimpleNamespace):
    """A shard, known by its identity."""

    __hash__ = object.__hash__


def refused(*_: Any) -> bytes:
    raise OSError("the disk refuses to be read")


class Members(list[Any]):
    """Known by their ids."""

    def __init__(self, of: list[Any]) -> None:
        super().__init__(of)
        self._of = of

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of)

    def __contains__(self, member_id: object) -> bool:
        return any(member.member_id == member_id for member in self._of)


@pytest.fixture
def groups() -> Groups:
    return Groups()


KEPT = OffsetsAnswer(partitions={TP: ErrorCode.none})
STORE = Store(token=0, records=((NAMED, None),))


def stored_generation(number: int) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer", generation=number, protocol=None, leader=None,
        current_state_timestamp=0, members=(),
    )  # fmt: skip


def committed(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, leader_epoch=0, metadata="", commit_timestamp=0)


def stored(offset: int, error: ErrorCode = ErrorCode.none) -> Stored:
    return Stored(at=Moment(Millis(0), 0), token=0, error=error, offset=offset)


def stored_member(assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=MEMBER, group_instance_id=None, client_id="", client_host="",
        rebalance_timeout=3_000, session_timeout=3_000, subscription=b"", assignment=assignment,
    )  # fmt: skip


def test_commit_is_answered_when_it_is_stored(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.step(stored(9), Respond(request=1, answer=KEPT))


def test_record_counts_as_stored_above_the_high_watermark(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    with pytest.raises(Violation, match=r"Groups/uncommitted-state-used: .* below 11 .* is 10"):
        groups.step(stored(10))


def test_deposed_coordinator_is_not_judged_by_its_watermark(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.replica.role = Role.FOLLOWER
    groups.step(stored(10))


def test_commit_is_answered_before_it_is_stored_or_after_it_failed(groups: Groups) -> None:
    with pytest.raises(Violation, match="Groups/answered-before-stored"):
        groups.step(groups.commit(), STORE, Respond(request=1, answer=KEPT))
    groups.step(groups.commit(), STORE)
    with pytest.raises(Violation, match="Groups/answered-before-stored"):
        groups.step(stored(-1, ErrorCode.request_timed_out), Respond(request=1, answer=KEPT))


def test_generation_is_given_out_before_it_is_stored(groups: Groups) -> None:
    answer = Respond(request=2, answer=SyncAnswer(assignment=b"all"))
    groups.step(groups.sync(), answer)
    groups.by_id[GROUP].generation += 1
    with pytest.raises(Violation, match="gives out generation 4, stored is 3"):
        groups.step(groups.sync(), answer)
    next_one = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol=None, leader=None,
        current_state_timestamp=0, members=(stored_member(b"all"),),
    )  # fmt: skip
    groups.step(groups.sync(), Store(token=0, records=((GroupMetadataKey(group=GROUP), next_one),)))
    groups.step(stored(9), answer)


def test_assignment_differs_from_the_stored_one(groups: Groups) -> None:
    with pytest.raises(
        Violation, match=r"Groups/answered-before-stored: group g: m is given b'', stored"
    ):
        groups.step(groups.sync(), Respond(request=2, answer=SyncAnswer()))
    came_back = replace(groups.sync(), member_id="again")
    answer = Respond(request=2, answer=SyncAnswer(assignment=b"all"))
    with pytest.raises(Violation, match="again is given b'all', stored is None"):
        groups.step(came_back, answer)


def test_groups_of_an_earlier_leader_epoch_are_served(groups: Groups) -> None:
    groups.replica.leader_epoch = 7
    with pytest.raises(
        Violation, match=r"Groups/not-loaded-in-epoch: .* leader epoch 5 are .* leader in 7"
    ):
        groups.step(groups.commit())


def test_session_ends_too_early(groups: Groups) -> None:
    groups.heartbeat(1_000)
    groups.step(Tick(at=groups.at(3_900)))
    with pytest.raises(
        Violation, match=r"Groups/live-member-removed: .* silent for 2900 of 3000 ms"
    ):
        groups.step(Tick(at=groups.at(3_900)), leaves=True)


def test_session_ends_when_it_is_over(groups: Groups) -> None:
    groups.heartbeat(1_000)
    groups.step(Tick(at=groups.at(4_000)), leaves=True)


def test_session_begins_when_groups_are_loaded(groups: Groups) -> None:
    with pytest.raises(
        Violation, match=r"Groups/live-member-removed: .* silent for 2900 of 3000 ms"
    ):
        groups.step(Tick(at=groups.at(2_900)), leaves=True)


@pytest.mark.parametrize("leaves", [True, False])
def test_member_leaves_and_the_group_stays_stable(groups: Groups, leaves: bool) -> None:
    event = Tick(at=groups.at(4_000))
    if leaves:
        event = Leave(request=4, at=groups.at(1_000), group=GROUP, leaving=((MEMBER, None),))
    with pytest.raises(Violation, match=r"Groups/no-rebalance-after-leave: .* \['m'\] are gone"):
        groups.step(event, leaves=True, unnoticed=True)


def test_log_that_begins_later_lacks_what_a_group_knows(groups: Groups) -> None:
    known = SimpleNamespace(value=SimpleNamespace(offset=7), stored_at=3)
    groups.group.offsets = SimpleNamespace(committed={TP: known}, settled=lambda: {TP})
    groups.again = ((OFFSET, committed(7)), *groups.again)
    for _ in range(2):
        groups.log.log_start_offset += 5
        groups.step(Tick(at=groups.at(0)))
    there, former = stored_generation(GENERATION), stored_generation(GENERATION - 1)
    known_groups, numbers = groups.by_id, {GROUP: GENERATION}
    check_kept("here", known_groups, numbers, {GROUP: StoredGroup({TP: (7, 9)}, there)})
    for offsets, generation in (({}, there), ({TP: (6, 9)}, there), ({TP: (7, 9)}, former)):
        stored = {GROUP: StoredGroup(offsets, generation)}
        with pytest.raises(Violation, match=r"Groups/differ-from-log: .* begins later"):
            check_kept("here", known_groups, numbers, stored)


def test_snapshot_lacks_a_generation(groups: Groups) -> None:
    groups.step(Tick(at=groups.at(0)))
    groups.again = ()
    with pytest.raises(Violation, match=r"Groups/differ-from-log: .* group g has generation 3"):
        groups.step(Tick(at=groups.at(0)))


def test_snapshot_lacks_a_record_on_its_way(groups: Groups) -> None:
    on_its_way = Store(token=0, records=((OFFSET, committed(7)), (NAMED, None)))
    groups.step(groups.commit(), on_its_way)
    groups.again = ((OFFSET, committed(7)),)
    groups.step(Tick(at=groups.at(0)))
    for again in ((), ((OFFSET, committed(6)),), ((OFFSET, committed(7)), *Groups().again)):
        groups.again = again
        with pytest.raises(Violation, match=r"Groups/differ-from-log: .* is on its way to"):
            groups.step(Tick(at=groups.at(0)))


def test_snapshot_may_lack_what_could_not_be_stored(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.step(stored(0, ErrorCode.request_timed_out))
    groups.again = ()
    groups.step(Tick(at=groups.at(0)))


def test_coordinator_loads_something_else_than_its_log_has() -> None:
    offsets = {TP: SimpleNamespace(value=SimpleNamespace(offset=7), stored_at=3)}
    group: Any = SimpleNamespace(
        offsets=SimpleNamespace(committed=offsets), generation=0, protocol=None,
        protocol_type=None, state=GroupState.EMPTY, since_ms=None, members=NoMembers(),
    )  # fmt: skip
    check_loaded("here", {GROUP: group}, {GROUP: StoredGroup({TP: (7, 3)})})
    for strange in ({}, {GROUP: StoredGroup({TP: (8, 3)})}, {GROUP: StoredGroup({TP: (7, 4)})}):
        with pytest.raises(Violation, match="Groups/differ-from-log"):
            check_loaded("here", {GROUP: group}, strange)


class NoMembers:
    """The members of an empty group."""

    leader = None

    def __iter__(self) -> Iterator[Any]:
        return iter(())
