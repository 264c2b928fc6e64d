"""The leader after an ISR write, and the controller after that."""

import asyncio

import pytest

from ackproof.broker.server.controller.controller_coordinator import IsrChanges
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.zk.kafka_zk import IsrWriteOutcome, IsrWriteResult
from ackproof.broker.server.zk.session import SessionExpired, ZkClosed
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion
from tests.support.worlds.replica_hosts import hosts, leader_and_isr, run, until

TP = TopicPartition("t", 0)
WRITTEN, CONFLICT, UNKNOWN = IsrWriteOutcome


class Answers:
    """ZooKeeper, as far as ISRs are concerned: answers as told, and notes what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.notified = []

    async def write_isr(self, tp, **asked):
        self.asked.append((tp, asked))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def notify_isr_change(self, tps):
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        self.notified.append(set(tps))


async def shrinking(host, zk):
    """Broker 1 leads alone, wants 2 out of the ISR, and has it written by ``zk``."""
    await host.call(leader_and_isr(TP, 1, 4, (1, 2), (1, 2), controller_epoch=7))
    waiting = host.produce(TP, b"v")
    await until(lambda: host.replicas.tick() or host.isr_writes)
    changes = IsrChanges(BrokerId(1), zk, Clock(), host.spawn)
    ((partition, effect),) = host.isr_writes
    host.isr_writes.clear()
    return changes, partition, effect, waiting


def test_an_isr_that_was_written_counts_with_its_version(tmp_path):
    async def story():
        async with hosts(tmp_path, 1, replica_lag_time_max_ms=40) as brokers:
            zk = Answers(IsrWriteResult(WRITTEN, ZkVersion(41)))
            changes, partition, effect, waiting = await shrinking(brokers[1], zk)
            assert not changes.is_due(10**9)
            await changes._write(partition, effect)
            assert (partition.replica.isr, partition.replica.zk_version) == ((1,), 41)
            assert waiting.result().error.name == "none"
            ((tp, asked),) = zk.asked
            assert tp == TP
            assert asked == {
                "leader": 1,
                "leader_epoch": 4,
                "controller_epoch": 7,
                "isr": (1,),
                "zk_version": 40,
                "again": False,
            }
            assert changes.is_due(10**15), "the controller must be told"
            await changes._propagate()
            assert zk.notified == [{TP}]
            assert not changes.is_due(10**15)

    run(story())


@pytest.mark.parametrize(("outcome", "again"), [(CONFLICT, False), (UNKNOWN, True)])
def test_isr_write_with_unknown_outcome_is_retried_and_a_conflict_is_not(tmp_path, outcome, again):
    """Until it is known which ISR holds, the larger one counts."""

    async def story():
        async with hosts(tmp_path, 1, replica_lag_time_max_ms=40) as brokers:
            host = brokers[1]
            zk = Answers(*[IsrWriteResult(outcome)] * 3)
            changes, partition, effect, waiting = await shrinking(host, zk)
            await changes._write(partition, effect)
            for _ in range(2):
                assert partition.replica.isr == (1, 2)
                host.replicas.tick()
                assert [retried == effect for _, retried in host.isr_writes] == [True] * again
                for _, retried in host.isr_writes:
                    await changes._write(partition, retried)
                host.isr_writes.clear()
            assert not waiting.done()
            assert not changes.is_due(10**15)
            assert [asked["again"] for _, asked in zk.asked] == [False, True, True][: 1 + 2 * again]

    run(story())


def test_news_of_a_write_is_of_the_epoch_that_wanted_it(tmp_path):
    """The controller elected the same leader again meanwhile, from the ISR that it knew."""

    async def story():
        async with hosts(tmp_path, 1, replica_lag_time_max_ms=40) as brokers:
            host = brokers[1]
            zk = Answers(IsrWriteResult(WRITTEN, ZkVersion(99)))
            changes, partition, effect, _ = await shrinking(host, zk)
            await host.call(leader_and_isr(TP, 1, 5, (1, 2), (1, 2), controller_epoch=7))
            host.isr_writes.clear()
            await until(lambda: host.replicas.tick() or host.isr_writes)  # wants the same again
            await changes._write(partition, effect)
            assert (partition.replica.isr, partition.replica.zk_version) == ((1, 2), 50)

    run(story())


def test_failed_isr_notification_is_sent_in_the_next_session():
    async def story():
        zk = Answers(SessionExpired("over"))
        changes = IsrChanges(BrokerId(1), zk, Clock(), asyncio.create_task)
        changes.changed(TP)
        await changes._propagate()
        assert zk.notified == []
        await changes._propagate()
        assert zk.notified == [{TP}]

    run(story())


def test_a_broker_that_stops_is_not_kept_by_its_writes(tmp_path):
    async def story():
        async with hosts(tmp_path, 1, replica_lag_time_max_ms=40) as brokers:
            changes, partition, effect, _ = await shrinking(brokers[1], Answers(ZkClosed("closed")))
            await changes._write(partition, effect)
            assert partition.replica.isr == (1, 2)

    run(story())


class Watch:
    """A clock that stands until a test moves it, milliseconds."""

    ms = 1_000

    def now(self):
        return self.ms


def test_isr_changes_are_sent_after_quiet_or_a_long_wait():
    """Seed 002, 1.2: 5 s after the last change, or 60 s after it was told last."""

    async def story():
        zk, clock = Answers(), Watch()
        changes = IsrChanges(BrokerId(1), zk, clock, asyncio.create_task)
        assert not changes.is_due(10**9), "nothing has changed"
        changes.changed(TP)
        assert not changes.is_due(6_000)
        assert changes.is_due(6_001)
        clock.ms = 5_000
        changes.changed(TP)
        assert not changes.is_due(10_000)
        assert changes.is_due(10_001)
        clock.ms = 60_900
        changes.changed(TP)
        assert not changes.is_due(61_000)
        assert changes.is_due(61_001), "it never is quiet"
        clock.ms = 62_000
        await changes._propagate()
        assert zk.notified == [{TP}]
        clock.ms = 121_500
        changes.changed(TP)
        assert not changes.is_due(122_000)
        assert changes.is_due(122_001)

    run(story())


def test_word_that_got_lost_with_the_session_counts_as_not_sent():
    async def story():
        zk, clock = Answers(SessionExpired("over")), Watch()
        changes = IsrChanges(BrokerId(1), zk, clock, asyncio.create_task)
        clock.ms = 61_500
        changes.changed(TP)
        await changes._propagate()
        assert changes.is_due(61_501), "60 s after it was told last, which is long ago"

    run(story())
