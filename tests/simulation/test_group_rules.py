"""The invariants of group coordinators: each is broken once and kept once."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Commit,
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
    OffsetCommitValue,
)
from simulation.model.groups import GroupsModel
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

HOME = TopicPartition("__consumer_offsets", 0)
TP = TopicPartition("t", 0)
GROUP, MEMBER, GENERATION = "g", "m", 3
NAMED = GroupMetadataKey(group=GROUP)


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
        self.model.loaded(1, self.shard)

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


class Shard(SimpleNamespace):
    """A shard, known by its identity."""

    __hash__ = object.__hash__


def refused(*_: Any) -> bytes:
    raise OSError("the disk refuses to be read")


class Members(list[Any]):
    """A list of members that are known by their ids."""

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


def test_deposed_coordinator_is_not_judged_by_its_watermark(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.replica.role = Role.FOLLOWER
    groups.step(stored(10))


def test_unstored_generation_in_an_answer_is_a_violation(groups: Groups) -> None:
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


def test_request_to_groups_of_an_earlier_epoch_is_a_violation(groups: Groups) -> None:
    groups.replica.leader_epoch = 7
    with pytest.raises(
        Violation, match=r"Groups/not-loaded-in-epoch: .* leader epoch 5 are .* leader in 7"
    ):
        groups.step(groups.commit())


def test_snapshot_may_lack_unstored_commits(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.step(stored(0, ErrorCode.request_timed_out))
    groups.again = ()
    groups.step(Tick(at=groups.at(0)))
