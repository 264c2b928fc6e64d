"""The offsets that a group must remember after a loss of records."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import OffsetAndMetadata
from ackproof.broker.groups.offsets import key, value
from ackproof.broker.replication.events import Append
from ackproof.broker.types import LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.batch import KeyValue, new_batch
from ackproof.broker.wire.group_records import encode
from simulation.model.groups import StoredCommits
from simulation.model.history import SentCommit
from simulation.model.log import BatchExtent
from simulation.model.partition import PartitionModel

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)


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
