"""A follower ends up with its leader's log, whatever the two logs were (KIP-101, KIP-279).

Two logs are drawn that can exist together: each leader epoch was written by one leader, so within
an epoch one log is a prefix of the other, and where they differ they have no epoch in common. The
follower then talks to the leader until it has fetched everything.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.events import (
    AskEpoch,
    EpochEndOffset,
    Fetched,
    FetchFrom,
    FetchOutOfRange,
    LeaderAndIsr,
    LeaderLostRecords,
    Truncate,
    TruncateFully,
)
from ackproof.broker.replication.follower import Follower
from ackproof.broker.replication.local import Effects, Entry, Epochs, LocalLog, LogState
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Millis, Offset, ZkVersion

LEADER, FOLLOWER = BrokerId(1), BrokerId(2)
ROUNDS_MAX: Final = 60
CURRENT: Final = LeaderEpoch(20)
"""Later than every epoch that is drawn."""


class Batch(NamedTuple):
    """A batch of which only its place and its epoch count."""

    base_offset: int
    next_offset: int
    leader_epoch: int


Log = tuple[Batch, ...]


class Logs(NamedTuple):
    """A follower's log, its leader's, and the offset up to which they are the same."""

    own: Log
    leaders: Log
    common: int


def laid_out(sizes_and_epochs: Sequence[tuple[int, int]], begin: int = 0) -> Log:
    """Return batches of these sizes and epochs, one after the other."""
    batches = []
    for size, epoch in sizes_and_epochs:
        batches.append(Batch(begin, begin + size, epoch))
        begin += size
    return tuple(batches)


def end_of(log: Log) -> int:
    return log[-1].next_offset if log else 0


@st.composite
def logs(draw: st.DrawFn) -> Logs:
    """Return two logs that can exist together."""
    sizes = st.integers(1, 3)
    epochs = st.lists(st.integers(0, 8), max_size=5).map(sorted)
    shared = laid_out([(draw(sizes), epoch) for epoch in draw(epochs)])
    last = shared[-1].leader_epoch if shared else 0
    later = sorted(draw(st.sets(st.integers(last + 1, 19), max_size=6)))
    owners = draw(st.lists(st.booleans(), min_size=len(later), max_size=len(later)))
    goes_on = draw(st.sampled_from(["own", "leaders", "neither"]))
    suffixes: dict[str, list[tuple[int, int]]] = {"own": [], "leaders": []}
    if goes_on != "neither" and shared:
        suffixes[goes_on].append((draw(sizes), last))
    for epoch, is_own in zip(later, owners, strict=True):
        for _ in range(draw(st.integers(1, 2))):
            suffixes["own" if is_own else "leaders"].append((draw(sizes), epoch))
    own, leaders = (
        (*shared, *laid_out(suffixes[name], end_of(shared))) for name in ("own", "leaders")
    )
    return Logs(own, leaders, end_of(shared))


def entries(log: Log) -> tuple[Entry, ...]:
    """Return where each epoch of a log begins."""
    begins = [*log[:1], *(b for a, b in pairwise(log) if a.leader_epoch != b.leader_epoch)]
    return tuple((LeaderEpoch(each.leader_epoch), Offset(each.base_offset)) for each in begins)


class Conversation:
    """A follower that has ``own`` and a leader that has ``leaders``."""

    def __init__(self, drawn: Logs, truncation: Truncation, high_watermark: int) -> None:
        self.own, self.leaders = drawn.own, drawn.leaders
        self.least = end_of(drawn.own)
        self.local = LocalLog(
            LogState(
                log_start_offset=Offset(0),
                log_end_offset=Offset(self.least),
                high_watermark=Offset(high_watermark),
                epochs=entries(drawn.own),
            )
        )
        told = LeaderAndIsr(
            controller_epoch=ControllerEpoch(1),
            leader=LEADER,
            leader_epoch=CURRENT,
            isr=(LEADER,),
            replicas=(LEADER, FOLLOWER),
            zk_version=ZkVersion(1),
            now=Millis(0),
        )
        self.follower = Follower(ReplicaConfig(truncation=truncation), self.local, told)

    def run(self) -> None:
        """Talk until the follower has everything."""
        self.take(self.follower.enter())
        for _ in range(ROUNDS_MAX):
            todo = self.follower.fetching()
            if isinstance(todo, FetchFrom) and todo.offset == end_of(self.leaders):
                self.take(self.fetched(todo))  # it hears that there is no more
                return
            self.take(self.asked(todo) if isinstance(todo, AskEpoch) else self.fetched(todo))
        raise AssertionError(f"{self.own} never becomes {self.leaders}")

    def asked(self, todo: AskEpoch) -> Effects:
        epochs = Epochs((*entries(self.leaders), (CURRENT, Offset(end_of(self.leaders)))))
        epoch, end = epochs.end_offset_for(todo.epoch, Offset(end_of(self.leaders)))
        return self.follower.epoch_end_offset(
            EpochEndOffset(current_leader_epoch=CURRENT, leader_epoch=epoch, end_offset=end)
        )

    def fetched(self, todo: FetchFrom) -> Effects:
        end = Offset(end_of(self.leaders))
        if todo.offset > end:
            return self.out_of_range(end)
        batches = tuple(each for each in self.leaders if each.next_offset > todo.offset)
        before = self.local.log_end_offset
        effects = self.follower.fetched(
            Fetched(
                leader_epoch=CURRENT,
                fetch_offset=todo.offset,
                batches=batches,
                high_watermark=Offset(0),
                log_start_offset=Offset(0),
            )
        )
        if self.local.log_end_offset > before:
            self.own = (*self.own, *batches)
        return effects

    def out_of_range(self, end: Offset) -> Effects:
        return self.follower.out_of_range(
            FetchOutOfRange(leader_epoch=CURRENT, log_start_offset=Offset(0), log_end_offset=end)
        )

    def take(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Truncate | TruncateFully):
                self.least = min(self.least, effect.offset)
                self.own = tuple(b for b in self.own if b.next_offset <= effect.offset)


@given(logs())
@settings(max_examples=100)
def test_follower_by_epochs_gets_its_leaders_log(drawn: Logs) -> None:
    """It truncates nothing that both have, and its epochs are those of its log."""
    conversation = Conversation(drawn, Truncation.LEADER_EPOCH, high_watermark=0)
    conversation.run()
    assert conversation.own == drawn.leaders
    assert conversation.least >= drawn.common
    assert conversation.local.epochs.entries == entries(drawn.leaders)
    assert conversation.local.log_end_offset == end_of(drawn.leaders)


@given(logs(), st.data())
@settings(max_examples=100)
def test_follower_by_watermark_never_gets_stuck(drawn: Logs, data: st.DataObject) -> None:
    """Test that both logs end at the same offset, although they may differ below the watermark."""
    watermark = data.draw(st.integers(0, end_of(drawn.own)))
    conversation = Conversation(drawn, Truncation.HIGH_WATERMARK, high_watermark=watermark)
    conversation.run()
    assert conversation.local.log_end_offset == end_of(drawn.leaders)


@given(logs(), st.integers(1, 3), st.booleans())
@settings(max_examples=60)
def test_follower_truncates_nothing_once_its_leader_has_served_it(
    drawn: Logs, lost: int, regrown: bool
) -> None:
    """A leader that then ends elsewhere in the same epoch has lost records: that is an alarm."""
    conversation = Conversation(drawn, Truncation.LEADER_EPOCH, high_watermark=0)
    conversation.run()
    end = end_of(drawn.leaders)
    told = end + lost if regrown else max(0, end - lost)
    if told == end:
        return
    effects = conversation.out_of_range(Offset(told))
    assert [type(effect) for effect in effects] == [LeaderLostRecords]
    assert conversation.local.log_end_offset == end
