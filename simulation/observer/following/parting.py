"""**LogsMeet**: whatever log its leader has, a follower ends up with that, and has given up no more
than what the leader has not got (KIP-101, KIP-279).

Logs part where a leader has appended what nobody else has got; where in them is a matter of luck,
and most of a run they do not. So a follower is judged when it begins to follow, by what it would do
if its leader's log were not the one that it is: one that was left earlier, or later, by who led
next. Epochs are counted in twos for that, so that between any two of them another one fits.

Of epochs 1 and 3 it has 0 to 4 and 4 to 9, the leader of 1 and 2 has 0 to 2 and 2 to 6. Asked about
3 that one says that 2 ended at 6. Who cuts where 1 ended in its own log, at 4, and asks no more,
keeps two records that its leader has not got.

**LossIsAlarming**: once its leader has served it from its end, be it with records or with none, a
follower cuts nothing in that epoch: that leader counts it as replicated. One that knows less by
then has lost its own end, and is told of, whether it has grown as long again or not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from ackproof.broker.replication.config import Truncation
from ackproof.broker.replication.epochs import Entry
from ackproof.broker.replication.events import (
    AskEpoch,
    EpochEndOffset,
    Event,
    Fetched,
    FetchFrom,
    FetchOutOfRange,
    LeaderAndIsr,
    LeaderLostRecords,
    Truncate,
    TruncateFully,
)
from ackproof.broker.replication.follower import Follower
from ackproof.broker.replication.local import Effects, LocalLog, LogState
from ackproof.broker.replication.replica import Replica, Role
from ackproof.broker.types import LeaderEpoch, Offset
from simulation.partition.shadow import Extent, Shadow
from simulation.violation import Violation

LATEST: Final = 3
"""Of so many epochs logs are made to part, the latest ones."""
MORE: Final = 2
"""How many offsets a leader has that its follower has not got."""
ROUNDS_MAX: Final = 50
"""More than what any of these logs need."""


class _Batch(NamedTuple):
    base_offset: int
    next_offset: int
    leader_epoch: int


Log = tuple[_Batch, ...]


def stepped(name: str, replica: Replica, log: Shadow, event: Event) -> None:
    """A replica whose ``log`` is that has taken ``event`` in; raises Violation."""
    if type(event) is not LeaderAndIsr or replica.role is not Role.FOLLOWER or event.as_printed:
        return
    own = tuple(_batches(log.between(replica.log_start_offset, replica.log_end_offset)))
    if not own:
        return
    for theirs in _unequal(own):
        _Conversation(name, replica, own, theirs, Truncation.HIGH_WATERMARK).ends_well()
    if replica._config.truncation is Truncation.LEADER_EPOCH:
        for theirs, common in _parted(own, event.leader_epoch):
            told = _Conversation(name, replica, own, theirs, Truncation.LEADER_EPOCH)
            told.ends_well()
            told.keeps(common)
    end = own[-1].next_offset
    longer = (*own, _Batch(end, end + MORE, own[-1].leader_epoch))
    _Conversation(name, replica, own, longer, replica._config.truncation).raises_the_alarm()


def _batches(extents: Iterable[Extent]) -> Iterator[_Batch]:
    return (_Batch(each.base, each.next, 2 * each.epoch) for each in extents)


def _parted(own: Log, current: int) -> Iterator[tuple[Log, int]]:
    """Logs of leaders in the epoch ``current``, and up to where ``own`` is the same."""
    epochs = sorted({batch.leader_epoch for batch in own})[-LATEST:]
    for epoch in epochs:
        of_it = [batch for batch in own if batch.leader_epoch == epoch]
        before = tuple(batch for batch in own if batch.leader_epoch < epoch)
        for count in {len(of_it), len(of_it) // 2}:
            kept = (*before, *of_it[:count])
            end = kept[-1].next_offset if kept else own[0].base_offset
            went_on = _Batch(end, end + MORE, epoch)
            another = _Batch(end, end + MORE, epoch + 1)
            last = _Batch(end + MORE, end + 2 * MORE, 2 * current + 1)
            yield kept, end
            yield (*kept, another), end
            yield (*kept, another, last), end
            if count == len(of_it):
                yield (*kept, went_on), end
                yield (*kept, went_on, last), end


def _unequal(own: Log) -> Iterator[Log]:
    """By watermark nobody knows where logs part, and batches may lie across where one ends."""
    end = own[-1].next_offset
    for back in (1, MORE):
        if own[0].base_offset < end - back:
            across = _Batch(end - back, end + MORE, own[-1].leader_epoch)
            yield (*_below(own, end - back), across)


def _below(log: Log, offset: int) -> Log:
    return tuple(
        batch._replace(next_offset=min(batch.next_offset, offset))
        for batch in log
        if batch.base_offset < offset
    )


class _Conversation:
    """A follower with log ``own``, and a leader with another one."""

    def __init__(
        self, name: str, replica: Replica, own: Log, theirs: Log, truncation: Truncation
    ) -> None:
        assert replica._state is not None
        by_epoch = truncation is Truncation.LEADER_EPOCH
        self._name, self._replica, self._theirs = name, replica, theirs
        self._first, self._own = own, own
        self._least = own[-1].next_offset
        start, end = Offset(own[0].base_offset), Offset(self._least)
        self._local = LocalLog(
            LogState(
                log_start_offset=start,
                log_end_offset=end,
                high_watermark=start if by_epoch else end,
                epochs=_entries(own) if by_epoch else (),
            )
        )
        config = replace(replica._config, truncation=truncation)
        self._follower = Follower(config, self._local, replica._state)

    def ends_well(self) -> None:
        """Both have the same length; raises Violation."""
        self._took(self._follower.enter())
        rounds = 0
        while self._local.log_end_offset != self._end or self._is_asking:
            rounds += 1
            self._require(rounds <= ROUNDS_MAX, "never has it")
            self._took(self._round())

    def keeps(self, common: int) -> None:
        """And the same, by the epochs in it, and what was ``common`` was never given up."""
        self._require(_entries(self._own) == _entries(self._theirs), "ends up otherwise")
        self._require(self._least >= common, f"gives up what lies below {common}")

    def raises_the_alarm(self) -> None:
        """If that leader loses records that it has served, and if it does when it had been asked
        once more, and had none; raises Violation."""
        self.ends_well()
        self._loses()
        self._took(self._round())
        self._loses()

    def _loses(self) -> None:
        start, end = Offset(self._first[0].base_offset), self._end
        for ends in Offset(end - 1), Offset(end + 1):
            told = FetchOutOfRange(
                leader_epoch=self._follower.epoch, log_start_offset=start, log_end_offset=ends
            )
            effects = self._follower.out_of_range(told)
            if [type(effect) for effect in effects] != [LeaderLostRecords]:
                what = f"broker {self._replica.broker} has fetched up to {end}, and raises no alarm"
                what = f"{what} when its leader has lost that, and ends at {ends}"
                raise Violation("LossIsAlarming", f"{self._name}: {what}")

    @property
    def _end(self) -> int:
        return self._theirs[-1].next_offset if self._theirs else self._first[0].base_offset

    @property
    def _is_asking(self) -> bool:
        return isinstance(self._follower.fetching(), AskEpoch)

    def _round(self) -> Effects:
        todo = self._follower.fetching()
        if isinstance(todo, AskEpoch):
            epoch, end = self._told(todo.epoch)
            told = EpochEndOffset(
                current_leader_epoch=todo.leader_epoch, leader_epoch=epoch, end_offset=end
            )
            return self._follower.epoch_end_offset(told)
        return self._fetched(todo)

    def _told(self, epoch: int) -> Entry:
        """Where the largest epoch up to that one ended."""
        known = [each for each in self._theirs if each.leader_epoch <= epoch]
        if not known:
            return LeaderEpoch(epoch), Offset(self._first[0].base_offset)
        return LeaderEpoch(known[-1].leader_epoch), Offset(known[-1].next_offset)

    def _fetched(self, todo: FetchFrom) -> Effects:
        start, end = Offset(self._first[0].base_offset), Offset(self._end)
        if todo.offset > end:
            return self._follower.out_of_range(
                FetchOutOfRange(
                    leader_epoch=todo.leader_epoch, log_start_offset=start, log_end_offset=end
                )
            )
        batches = tuple(each for each in self._theirs if each.next_offset > todo.offset)
        try:
            effects = self._follower.fetched(
                Fetched(
                    leader_epoch=todo.leader_epoch,
                    fetch_offset=todo.offset,
                    batches=batches,
                    high_watermark=start,
                    log_start_offset=start,
                )
            )
        except ValueError as error:
            self._require(False, f"refuses it: {error}")
            raise
        if self._local.log_end_offset > todo.offset:
            self._own = (*self._own, *batches)
        return effects

    def _took(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Truncate | TruncateFully):
                self._own = _below(self._own, effect.offset)
                self._least = min(self._least, effect.offset)

    def _require(self, condition: bool, what: str) -> None:
        if not condition:
            told = f"broker {self._replica.broker}, which has {_listed(self._first)}, and would be"
            raise Violation(
                "LogsMeet",
                f"{self._name}: {told} told to follow who has {_listed(self._theirs)}, {what}",
            )


def _entries(log: Sequence[_Batch]) -> tuple[Entry, ...]:
    """Where each epoch begins."""
    begins = [*log[:1], *(after for before, after in pairwise(log) if _differ(before, after))]
    return tuple((LeaderEpoch(each.leader_epoch), Offset(each.base_offset)) for each in begins)


def _differ(before: _Batch, after: _Batch) -> bool:
    return before.leader_epoch != after.leader_epoch


def _listed(log: Log) -> str:
    begins = [f"epoch {epoch} from {offset}" for epoch, offset in _entries(log)] if log else []
    return f"{', '.join(begins)} to {log[-1].next_offset}" if log else "nothing"
