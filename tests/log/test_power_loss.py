"""A log on a disk that loses power or fails, or whose process is killed, at any operation.

The model knows every state of the log since the last power failure. The remaining log must be a
beginning of one of them. It must hold what the log had reported as flushed, or after a kill
everything. Indexes, leader epochs and producers must agree with it.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import Steps
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.producer_state import ProducerState
from ackproof.broker.replication.local import Epochs
from ackproof.broker.types import LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.batch import RecordBatch, parse_batches, stamped
from simulation.machines.disk import UNLIMITED_BYTES, SimulatedDisk
from tests.support.builders.batches import NOW_MS, batch
from tests.support.builders.examples import examples

TP = TopicPartition("t", 0)
HOME = Path("/broker/logs")
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)
WHOLE = 10**9

COUNTS = st.lists(st.integers(1, 3), min_size=1, max_size=4)
OPERATIONS = st.one_of(st.integers(0, 12), st.integers(0, 80))
FRACTIONS = st.floats(0, 1)


class Ended(BaseException):
    """The process has ended. Its remaining operations have no effect."""


class Background:
    """Postponed work: a thread does the work, and the broker continues some time later."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._work: Callable[[], object] | None = None
        self._done = True
        self._error: OSError | None = None

    def advance(self) -> bool:
        """Do the next part, and return whether there are more."""
        if not self._done:
            assert self._work is not None
            self._done = True
            try:
                self._work()
            except OSError as error:
                self._error = error
            return True
        error, self._error = self._error, None
        try:
            self._work = self._steps.throw(error) if error else next(self._steps)
        except StopIteration:
            return False
        self._done = False
        return True


class Content(NamedTuple):
    """The content of a log: its start if it is empty, and its batches."""

    begin: int
    batches: tuple[RecordBatch, ...] = ()

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return self.batches[-1].next_offset if self.batches else self.begin

    def within(self, start: int, end: int) -> tuple[RecordBatch, ...]:
        """Return the batches that reach above ``start``, and not above ``end``."""
        return tuple(b for b in self.batches if start < b.next_offset <= end)


class PowerLoss(RuleBasedStateMachine):
    """Appends, rolls, flushes, truncations, deletions and checkpoints, with an end at any operation
    of these."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.disk.make_directory(HOME.parent)
        self.disk.sync_directory(HOME.parent.parent)
        self.content = Content(0)
        self.states = [self.content]
        self.promised = 0
        self.start = self.start_max = 0
        self.epoch = 0
        self.sequence = 0
        self.clock = NOW_MS
        self.open()

    # --- operations of a broker -------------------------------------------------------------

    @rule(counts=COUNTS)
    def append(self, counts: list[int]) -> None:
        incoming = [self.fresh(count) for count in counts]
        after = self.content
        for one in incoming:
            after = Content(after.begin, (*after.batches, stamped(one, after.end, self.epoch)))
        self.change(after, lambda: self.log.append(incoming, self.content.end, self.epoch, NOW_MS))

    @rule(fraction=FRACTIONS)
    def truncate(self, fraction: float) -> None:
        """Truncate as a follower that has diverged, and follow the leader of another epoch from
        then on."""
        offset = int(self.start + fraction * (self.content.end - self.start))
        self.epoch += 1
        kept = tuple(b for b in self.content.batches if b.next_offset <= offset)
        self.change(Content(self.content.begin, kept), lambda: self.log.truncate_to(offset))
        self.start = min(self.start, self.content.end)

    @rule(offset=st.integers(0, 40))
    def truncate_fully(self, offset: int) -> None:
        self.start_max = max(self.start_max, offset)
        self.change(Content(offset), lambda: self.log.truncate_fully(offset))
        self.start = self.log.log_start_offset

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1
        self.log.start_epoch(self.epoch, self.content.end)

    @rule()
    def flush(self) -> None:
        self.attempt(self.log.flush)

    @rule(fraction=FRACTIONS)
    def delete_records(self, fraction: float) -> None:
        self.start = max(self.start, int(fraction * self.content.end))
        self.start_max = max(self.start_max, self.start)
        self.log.advance_log_start(self.start)
        self.attempt(lambda: self.log.delete_old_segments(self.content.end, NOW_MS))

    @rule()
    def checkpoint(self) -> None:
        log = self.log
        for act in (self.logs.checkpoint_recovery_points, self.logs.checkpoint_log_starts):
            if self.log is log:
                self.attempt(act, of_log=False)

    @rule(number=st.integers(0, 9), parts=st.integers(1, 6))
    def go_on_in_the_background(self, number: int, parts: int) -> None:
        if self.background:
            task = self.background.pop(number % len(self.background))

            def advance() -> None:
                if any(not task.advance() for _ in range(parts)):
                    return
                self.background.append(task)

            self.attempt(advance, of_log=False)

    @rule()
    def end_well(self) -> None:
        end = self.content.end
        left = self.background
        if not self.attempt(self.logs.close, of_log=False):
            return
        for task in left:
            while task.advance():
                pass
        if self.attempt(self.open, of_log=False):
            self.compare(end)

    # --- outcomes ---------------------------------------------------------------------------

    @rule(operations=OPERATIONS, power=st.booleans())
    def end_soon(self, operations: int, power: bool) -> None:
        """End the process before ``operations`` further operations of the disk and one more are
        carried out."""
        self.loses_power = power
        self.disk.watch = ends_after(operations)

    @rule(power=st.booleans(), again=st.one_of(st.none(), OPERATIONS))
    def end_now(self, power: bool, again: int | None) -> None:
        """End the process now. With ``again``, end the next start after so many operations, too."""
        self.loses_power = power
        self.crash(self.content.end, again)

    @rule(operations=OPERATIONS, lasts=st.booleans())
    def fail_soon(self, operations: int, lasts: bool) -> None:
        """Fail one operation with EIO, or all from then on."""
        left = operations

        def watch(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0 or (left < 0 and lasts):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.disk.watch = watch

    @precondition(lambda self: self.disk.free > 10**6)
    @rule(free=st.integers(0, 600))
    def fill_up(self, free: int) -> None:
        self.disk.capacity -= self.disk.free - free

    # --- the model --------------------------------------------------------------------------

    def fresh(self, count: int) -> RecordBatch:
        self.clock += 125
        self.sequence += count
        return batch(
            [b"value"] * count,
            timestamps=[self.clock] * count,
            producer=(7, self.epoch, self.sequence - count),
        )

    def change(self, after: Content, act: Callable[[], object]) -> None:
        """Do an action that leads to ``after``."""
        before = self.content
        cut = 0 if after.begin != before.begin else min(before.end, after.end)
        self.promised = min(self.promised, cut)
        self.states.append(after)
        if self.attempt(act, cut):
            self.content = after
            assert self.log.log_end_offset == after.end
            self.promised = self.log.recovery_point

    def attempt(
        self, act: Callable[[], object], common_end: int | None = None, of_log: bool = True
    ) -> bool:
        """Do an action, and return whether it succeeded. Otherwise the broker has restarted."""
        try:
            act()
        except Ended:
            self.crash(self.content.end if common_end is None else common_end)
            return False
        except OSError:
            self.fail(of_log)
            return False
        self.promised = max(self.promised, self.log.recovery_point) if self.logs.logs else 0
        return True

    def fail(self, of_log: bool) -> None:
        """Handle a disk error. Nothing may be appended or reported as durable until the log was
        opened again."""
        self.disk.watch = None
        self.disk.capacity = UNLIMITED_BYTES
        promised = self.promised
        if of_log:
            for act in (lambda: self.log.append([self.fresh(1)], 10**6, 1, 0), self.log.flush):
                try:
                    act()
                except OSError:
                    continue
                raise AssertionError("a log that has failed goes on as if nothing was")
        self.disk.kill()
        self.open()
        self.compare(promised)

    def crash(self, common_end: int, again: int | None = None) -> None:
        """End the process. ``common_end`` is the end of the records that were there before and
        after its last action."""
        loses_power = self.loses_power
        promised = self.promised if loses_power else common_end
        for watch in (ends_after(again), None) if again is not None else (None,):
            self.disk.watch = None
            if loses_power:
                self.disk.lose_power()
            else:
                self.disk.kill()
            self.disk.watch = watch
            with contextlib.suppress(Ended):
                self.open()
        self.compare(promised)
        if loses_power:
            self.states = [self.content]

    def open(self) -> None:
        self.background: list[Background] = []
        self.logs = LogManager(
            [HOME],
            lambda _: SMALL,
            files=self.disk,
            later=lambda steps: self.background.append(Background(steps)),
        )
        self.log = self.logs.create(TP)

    def compare(self, promised: int) -> None:
        """Compare the remaining content with the permitted one, and take it over."""
        self.disk.watch = None
        log = self.log
        start, end = log.log_start_offset, log.log_end_offset
        found = everything(log)
        assert found == () or (found[0].base_offset <= start and found[-1].next_offset == end)
        assert all(a.next_offset == b.base_offset for a, b in pairwise(found))
        assert any(found == state.within(start, end) for state in self.states)
        assert end >= promised
        if self.content.begin <= start:
            kept = Content(0, found).within(self.start, promised)
            assert kept == self.content.within(max(start, self.start), promised)
        assert start <= self.start_max
        agrees(log, found)
        self.content = Content(min([start, *(b.base_offset for b in found[:1])]), found)
        self.states.append(self.content)
        self.start = start
        self.promised = log.recovery_point
        self.loses_power = True

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.disk.watch = None


def ends_after(operations: int) -> Callable[[str], None]:
    """Return a function that raises Ended after so many operations."""
    left = operations

    def watch(_: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Ended

    return watch


def everything(log: PartitionLog) -> tuple[RecordBatch, ...]:
    """Return all batches that can be read."""
    found: list[RecordBatch] = []
    offset: int = log.log_start_offset
    while part := parse_batches(log.read(offset, WHOLE, WHOLE)):
        found += part
        offset = part[-1].next_offset
    return tuple(found)


def agrees(log: PartitionLog, found: tuple[RecordBatch, ...]) -> None:
    """Check that the log's state agrees with its batches."""
    epochs, producers = Epochs(), ProducerState()
    for one in found:
        epochs = epochs.assign(LeaderEpoch(one.leader_epoch), Offset(one.base_offset))
        producers.note(one)
        assert parse_batches(log.read(max(one.base_offset, log.log_start_offset), 1, WHOLE)) == (
            one,
        ) or parse_batches(log.read(one.last_offset, 1, WHOLE)) == [one]
        assert log.offset_for_timestamp(one.max_timestamp) == (
            max(one.base_offset, log.log_start_offset),
            one.max_timestamp,
        )
    assert log.epochs.entries == epochs.truncate_from_start(log.log_start_offset).entries
    for producer, known in log.producers.state.producers.items():
        expected = producers.producers.get(producer)
        sent = expected.batches if expected else ()
        assert known.batches[-len(sent) :] == sent or not sent
        earlier = known.batches[: len(known.batches) - len(sent)]
        assert all(one.last_offset < log.log_start_offset for one in earlier)
    assert set(producers.producers) <= set(log.producers.state.producers)


TestPowerLoss = PowerLoss.TestCase
TestPowerLoss.settings = settings(max_examples=examples(50), stateful_step_count=25)
