"""Text scripts of the model of a partition (``testdata/partition.txt``), and its invariants.

A script begins with a line ``=== title``. Each further line has commands of :class:`Story`. The
last one breaks the invariant behind ``->``, and the others none. ``#`` begins a comment.
"""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.events import (
    Append,
    FollowerFetch,
    HighWatermark,
    LeaderAndIsr,
    Produce,
    Respond,
    Tick,
    Truncate,
    WriteIsr,
)
from ackproof.broker.replication.replica import Role
from simulation.model.log import BatchExtent, ModelLog
from simulation.model.partition import PartitionModel
from simulation.model.replica import Lag
from simulation.violation import Violation
from tests.support.builders.batches import batch

BATCHES = {"record": batch((b"one",), leader_epoch=0), "other": batch((b"other",), leader_epoch=0)}
RECORD = BATCHES["record"]
Brokers = tuple[int, ...]


TEXT = (Path(__file__).parent / "testdata" / "partition.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script",
    [part.split("\n")[1:] for part in TEXT.split("\n=== ")[1:]],
    ids=re.findall("=== (.*)", TEXT),
)
def test_invariants_of_a_partition(script: list[str]) -> None:
    story = Story()
    for line in (line for line in script if line and line[0] != "#"):
        commands, _, invariant = line.partition(" -> ")
        *sound, last = commands.split("; ")
        for command in sound:
            story.carry_out(command)
        if not invariant:
            story.carry_out(last)
            continue
        with pytest.raises(Violation) as raised:
            story.carry_out(last)
        assert raised.value.invariant == invariant, line


def value(word: str) -> Any:
    """Return a word of a command as a number or as several brokers, else as it is."""
    if re.fullmatch(r"-?[0-9]+(,[0-9]+)+", word):
        return tuple(map(int, word.split(",")))
    if re.fullmatch(r"[-_]?[0-9.]+", word):
        return float(word) if "." in word else int(word.replace("_", "-"))
    return word


def some(brokers: Brokers | int) -> Brokers:
    return (brokers,) if isinstance(brokers, int) else brokers


class Story:
    """Three brokers, step by step. Broker 1 leads epoch 0.

    The methods that begin with ``do_`` are the commands. They get its words by position,
    and ``name=value`` as keywords. A word is a number, several brokers (``1,2``), or text.
    """

    def __init__(self) -> None:
        self.partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
        self.version, self.now, self.leader = 0, 0.0, 1
        self.isr: Brokers = (1, 2, 3)
        self.ends = {2: 0, 3: 0}
        self.waters = dict.fromkeys((1, 2, 3), 0)
        self.roles = {1: (Role.LEADER, 0), 2: (Role.FOLLOWER, 0), 3: (Role.FOLLOWER, 0)}
        self.do_state(1, epoch=0, isr=(1, 2, 3))
        order = LeaderAndIsr(
            controller_epoch=1, leader=1, leader_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3),
            zk_version=0, now=0,
        )  # fmt: skip
        for broker in (1, 2, 3):
            self.partition.hosted(broker, ModelLog(), 0)
            self.step(broker, event=order)
        self.do_damaged, self.do_registered = self.partition.damaged, self.partition.registered
        self.do_closed, self.do_ended = self.partition.closed, self.partition.ended_abruptly
        self.do_removed, self.do_min_isr = self.partition.removed, self.partition.configured
        self.do_damaged_left_isr = self.partition.check_damaged_left_isr

    def carry_out(self, command: str) -> None:
        name, *words = command.replace("-", "_").split()
        options = dict(word.split("=") for word in words if "=" in word)
        getattr(self, f"do_{name}")(
            *(value(word) for word in words if "=" not in word),
            **{key: value(word) for key, word in options.items()},
        )

    def step(self, broker: int, *effects: Any, event: Any = None) -> None:
        role, epoch = self.roles[broker]
        log = self.partition.replica(broker).log
        shadow = ModelLog(log.start, log.between(log.start, log.end))
        for effect in effects:
            if isinstance(effect, Append):
                shadow.append(effect)
            elif isinstance(effect, Truncate):
                shadow.truncate(effect.offset)
        view: Any = SimpleNamespace(
            role=role, leader=self.leader, leader_epoch=epoch, isr=self.isr,
            high_watermark=self.waters[broker],
            log_start_offset=shadow.start, log_end_offset=shadow.end, zk_version=self.version,
            serves=True, follower_ends=self.ends,
        )  # fmt: skip
        self.partition.stepped(broker, view, event or Tick(now=0), effects)

    # --- the state in ZooKeeper, and what brokers believe -----------------------------------------

    def do_state(self, leader: int, how: str = "", *, epoch: int, isr: Brokers, lives="") -> None:
        """Write a state. ``lives`` has the broker epochs of members that are not in the ISR with
        their first."""
        self.version += 1
        later = dict(value(one.replace(":", ",")) for one in lives.split(",") if one)
        state = PartitionState(
            leader=leader, leader_epoch=epoch, isr=some(isr), controller_epoch=1,
            zk_version=self.version, broker_epochs={b: later.get(b, b) for b in some(isr)},
        )  # fmt: skip
        self.partition.state_written(state, unclean=how == "unclean", now=self.now)

    def do_role(self, broker: int, role: str, *, epoch: int) -> None:
        """Let a broker have a role. All know of a leader of a later epoch."""
        self.roles[broker] = (Role[role.upper()], epoch)
        if role == "leader" and epoch:
            self.leader = broker

    def do_believed(self, isr: Brokers) -> None:
        """Let the leader believe in an ISR."""
        self.isr = some(isr)

    def do_propose(self, isr: Brokers) -> None:
        self.step(1, WriteIsr(leader_epoch=0, isr=some(isr), zk_version=self.version))

    def do_lag(self, **limits: int) -> None:
        self.partition.lag_max = Lag(**limits)

    def do_now(self, now: float) -> None:
        self.now = now

    # --- steps of replicas ------------------------------------------------------------------------

    def do_replicated(self) -> None:
        """Append one record everywhere, and commit it."""
        self.do_append((1, 2, 3))
        self.do_commit((1, 2, 3), to=1)

    def do_append(self, brokers: Brokers, what="record", *, at: int = 0, in_epoch: int = 0) -> None:
        """Append a batch as the leader, or as a follower that fetched it."""
        for broker in some(brokers):
            role, epoch = self.roles[broker]
            stored = replace(BATCHES[what], leader_epoch=in_epoch)
            if role is Role.LEADER:
                self.step(broker, Append(batches=(stored,), base_offset=at, leader_epoch=epoch))
            else:
                fetched = (replace(stored, base_offset=at),)
                self.step(broker, Append(batches=fetched, base_offset=at, leader_epoch=None))

    def do_commit(self, brokers: Brokers, *, to: int, now: int = 0) -> None:
        for broker in some(brokers):
            self.waters[broker] = to
            self.step(broker, HighWatermark(offset=to), event=Tick(now=now))

    def do_truncate(self, broker: int, *, to: int) -> None:
        self.step(broker, Truncate(offset=to))

    def do_tick(self, broker: int, *, now: int = 0, answer: str = "") -> None:
        self.step(broker, *answers(answer, -1), event=Tick(now=now))

    def do_fetch(self, follower: int, *, offset: int, now: int) -> None:
        """Let a follower fetch from the leader."""
        self.ends[follower] = offset
        event = FollowerFetch(replica=follower, offset=offset, log_start_offset=0, now=now)
        self.step(1, event=event)

    def do_produce(self, broker: int, *, at: int, answer: str = "") -> None:
        """Append a record with acks=all and a deadline of 9 ms."""
        append = Append(batches=(RECORD,), base_offset=at, leader_epoch=0)
        event = Produce(request=7, batches=(RECORD,), acks=-1, deadline=9, now=0)
        self.step(broker, append, *answers(answer, at), event=event)

    def do_acked(self, broker: int, how: str = "", *, proposes: Brokers = ()) -> None:
        """Commit the first record and acknowledge it, after a proposal if there is one."""
        version = self.version - (how == "stale")
        before = [WriteIsr(leader_epoch=0, isr=proposes, zk_version=version)] if proposes else []
        self.waters[broker] = 1
        event = Produce(request=7, batches=(), appended=(0, 1), acks=-1, deadline=9, now=0)
        self.step(broker, *before, HighWatermark(offset=1), *answers("none", 0), event=event)

    # --- starts and losses ------------------------------------------------------------------------

    def do_hosted(self, broker: int, found: str) -> None:
        """Let a broker start, and find these batches on its disk."""
        batches = [BATCHES[name] for name in found.split(",") if name != "empty"]
        extents = [
            BatchExtent(at, at + 1, each.crc, 0, each.max_timestamp)
            for at, each in enumerate(batches)
        ]
        self.partition.hosted(broker, ModelLog(0, extents), 0)

    def do_clear(self, broker: int) -> None:
        self.partition.replica(broker).log.clear(0)

    def do_log_starts(self, broker: int, *, at: int) -> None:
        self.partition.replica(broker).log.start_at(at)

    def do_water(self, broker: int, offset: int) -> None:
        """Set the high watermark that a broker reports."""
        self.waters[broker] = offset

    def do_watermark(self, broker: int, offset: int) -> None:
        """Set the high watermark that the model has of a broker."""
        self.partition.replica(broker).high_watermark = offset

    def do_lost_committed(self, broker: int) -> None:
        self.partition.replica(broker).lost_committed = True

    # --- what the model knows ---------------------------------------------------------------------

    def do_guaranteed(self, offset: int, kept: str = "yes", *, sent: float) -> None:
        assert self.partition.is_guaranteed(offset, sent_at=sent) == (kept == "yes")

    def do_committed(self, end: int) -> None:
        assert self.partition.committed_end == end

    def do_acked_by_deposed(self) -> None:
        assert self.partition.acked_by_deposed == {RECORD.crc}

    def do_whole(self, broker: int) -> None:
        assert self.partition.replica(broker).is_whole

    def do_undamaged(self, broker: int, *, end: int) -> None:
        assert self.partition.replica(broker).undamaged_end == end


def answers(error: str, offset: int) -> list[Respond]:
    return [Respond(request=7, error=ErrorCode[error], base_offset=offset)] if error else []


def test_model_log_is_truncated_by_whole_batches() -> None:
    log = ModelLog(0, [BatchExtent(0, 3, 1, 0), BatchExtent(3, 5, 2, 0)])
    assert [extent.base for extent in log.between(1, 5)] == [0, 3]
    log.truncate(4)
    assert (log.start, log.end) == (0, 3)
    log.clear(7)
    assert (log.start, log.end) == (7, 7)
