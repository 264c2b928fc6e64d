"""The invariants of group coordinators: each is broken once and kept once."""

from dataclasses import replace
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
from ackproof.broker.groups.offsets import key, value
from ackproof.broker.groups.state import GroupState
from ackproof.broker.replication.events import Append
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import LeaderEpoch, Millis, Offset, TopicPartition
from ackproof.broker.wire.batch import KeyValue, new_batch
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode,
)
from simulation.model.groups import GroupsModel, StoredCommits
from simulation.model.history import SentCommit
from simulation.model.log import BatchExtent
from simulation.model.partition import PartitionModel
from tests.support.oracles.violations import violates

pytestmark = pytest.mark.simulation

HOME = TopicPartition("__consumer_offsets", 0)
TP = TopicPartition("t", 0)
GROUP, MEMBER, GENERATION = "g", "m", 3
NAMED = GroupMetadataKey(group=GROUP)
NOW = Moment(Millis(0), 0)


class Groups:
    """One stable group with one member, which a :class:`GroupsModel` follows."""

    def __init__(self) -> None:
        self.member = SimpleNamespace(member_id=MEMBER, session_timeout_ms=3_000, assignment=b"all")
        group = SimpleNamespace(
            generation=GENERATION, state=GroupState.STABLE, members=[self.member],
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

    def step(self, event: Any, *effects: Any) -> None:
        self.model.stepped(self.shard, event, effects)

    def commit(self) -> Commit:
        return Commit(
            request=1, at=NOW, group=GROUP, member_id=MEMBER, generation=GENERATION,
            offsets={TP: OffsetAndMetadata(offset=7)},
        )  # fmt: skip

    def sync(self) -> Sync:
        return Sync(request=2, at=NOW, group=GROUP, member_id=MEMBER, generation=GENERATION)


class Shard(SimpleNamespace):
    """A shard, known by its identity."""

    __hash__ = object.__hash__


def refused(*_: Any) -> bytes:
    raise OSError("the disk refuses to be read")


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


def stored(offset: int, error: ErrorCode = ErrorCode.none) -> Stored:
    return Stored(at=NOW, token=0, error=error, offset=offset)


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
    with violates("gives out generation 4, stored is 3"):
        groups.step(groups.sync(), answer)
    next_one = replace(stored_generation(4), members=(stored_member(b"all"),))
    groups.step(groups.sync(), Store(token=0, records=((GroupMetadataKey(group=GROUP), next_one),)))
    groups.step(stored(9), answer)


def test_request_to_groups_of_an_earlier_epoch_is_a_violation(groups: Groups) -> None:
    groups.replica.leader_epoch = 7
    with violates(r"Groups/not-loaded-in-epoch: .* leader epoch 5 are .* leader in 7"):
        groups.step(groups.commit())


def test_snapshot_may_lack_unstored_commits(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.step(stored(0, ErrorCode.request_timed_out))
    groups.again = ()
    groups.step(Tick(at=NOW))


# --- the offsets that a group must remember after a loss of records -------------------------------


class Home:
    """A partition of ``__consumer_offsets`` with one commit in each batch, each committed at
    once."""

    def __init__(self) -> None:
        self.promises = PartitionModel("h-0", checks_data=True, note=lambda _: None)
        self.stored = StoredCommits()
        self._now = 0.0

    def commit(self, offset: int) -> SentCommit:
        """Send a commit, a second after the previous one."""
        self._now += 1
        self.append(offset)
        return SentCommit("g", TP, None, offset, self._now - 0.1, ErrorCode.none)

    def append(self, offset: int) -> None:
        """Append the commit, as a coordinator does also when it rewrites its state."""
        said = OffsetAndMetadata(offset=offset, leader_epoch=-1, metadata="")
        record = KeyValue(encode(key("g", TP)), encode(value(said, int(self._now * 1000))))
        batch, base = new_batch([record], int(self._now * 1000)), self.promises.committed_end
        append = Append(batches=(batch,), base_offset=Offset(base), leader_epoch=LeaderEpoch(0))
        self.stored.appended(append, self._now)
        self.promises.committed[base] = BatchExtent(base, base + 1, batch.crc, 0)
        self.promises.committed_end = base + 1

    def lose_from(self, base: int) -> None:
        self._now += 1
        self.promises.end_guarantee(base, epoch=0, now=self._now)

    def remembers(self, commit: SentCommit) -> bool:
        return self.stored.is_guaranteed(commit, self.promises)


def test_commit_is_remembered_as_far_as_its_records_are_guaranteed() -> None:
    home = Home()
    first, second, third = home.commit(5), home.commit(7), home.commit(9)
    assert home.remembers(third)
    home.lose_from(1)
    assert [home.remembers(each) for each in (first, second, third)] == [True, False, False]
    assert home.remembers(home.commit(9)), "later commits are guaranteed again"


def test_commit_of_the_same_offset_sent_later_is_separate() -> None:
    home = Home()
    first, second, again = home.commit(5), home.commit(7), home.commit(5)
    home.lose_from(2)
    assert [home.remembers(each) for each in (first, second, again)] == [True, True, False]


def test_rewritten_commit_is_at_the_present_log_start() -> None:
    home = Home()
    commit = home.commit(5)
    home.append(5)
    home.promises.deleted_below = 1
    home.lose_from(2)
    assert home.remembers(commit)
    home.lose_from(1)
    assert not home.remembers(commit)


def test_commit_must_be_remembered_without_a_loss() -> None:
    """Test a coordinator that stored a commit elsewhere, or did not rewrite it: it is not
    excused."""
    home = Home()
    home.lose_from(0)
    commit = home.commit(5)
    home.promises.deleted_below = 1
    assert home.remembers(commit)
    assert StoredCommits().is_guaranteed(commit, home.promises)
