"""Disagreements of a partition's replica with its log or its broker."""

import json
import logging

from kio.schema.errors import ErrorCode

from ackproof.broker.log.disk import HIGH_WATERMARKS, Directory, write_offsets
from ackproof.broker.replication.events import IsrWritten
from ackproof.broker.types import TopicPartition
from tests.support.builders.batches import batch
from tests.support.worlds.replica_hosts import (
    elect,
    hosts,
    leader_and_isr,
    run,
    stop_replica,
    until,
)

TP = TopicPartition("t", 0)


def test_deleted_leader_answers_waiters_and_ignores_its_isr_write(tmp_path):
    """A follower is dead, a producer waits, the ISR is being shrunk, the topic is deleted."""

    async def story():
        async with hosts(tmp_path, 1, replica_lag_time_max_ms=40) as brokers:
            host = brokers[1]
            await host.call(leader_and_isr(TP, 1, 0, (1, 2), (1, 2)))
            waiting = host.produce(TP, b"v")
            partition = host.partition(TP)
            await until(lambda: host.replicas.tick() or host.isr_writes)
            ((_, write),) = host.isr_writes
            assert write.isr == (1,)
            answer = await host.call(stop_replica(TP, -2, delete=True))
            assert {error.error_code for error in answer.partition_errors} == {ErrorCode.none}
            assert waiting.result().error is ErrorCode.not_leader_or_follower
            partition.step(IsrWritten(leader_epoch=0, isr=(1,), zk_version=1))
            late = partition.produce(batch([b"late"]), -1, 1_000)
            assert late.result().error is ErrorCode.not_leader_or_follower
            assert not host.halted
            again = await host.call(leader_and_isr(TP, 1, 0, (1,), (1,)))
            assert again.error_code is ErrorCode.none
            assert (await host.produce(TP, b"new")).base_offset == 0

    run(story())


def test_a_cut_inside_a_batch_takes_the_whole_batch_and_fetches_it_again(tmp_path, caplog):
    """Kafka 0.8 and 0.10 cut at the high watermark, which may lie inside a batch of this log when
    the last leader's batches were others. What is given up is written down, with the grounds."""
    caplog.set_level(logging.INFO, logger="state.change.logger")

    async def story():
        async with hosts(tmp_path, 1, 2, ackproof_generation="0.10") as brokers:
            first, second = brokers[1], brokers[2]
            await elect(brokers, TP, 1, 0, (1,), to=(1,))
            await first.produce(TP, b"a", b"b")
            await elect(brokers, TP, 2, 0, (2,), to=(2,))
            for value in (b"x", b"y", b"z"):
                await second.produce(TP, value)
            await first.stop()
            write_offsets(Directory(first.directory), HIGH_WATERMARKS, {TP: 1})
            await first.start()
            await elect(brokers, TP, 2, 1, (2,))
            await until(lambda: first.halted or first.values(TP) == second.values(TP))
            assert not first.halted
            assert first.partition(TP).replica.log_end_offset == 3

    run(story())
    told = [json.loads(record.message) for record in caplog.records]
    (cut,) = [line for line in told if line["change"] == "Truncate"]
    assert cut == {
        "event": "completed",
        "change": "Truncate",
        "broker": 1,
        "partition": "t-0",
        "leader": 2,
        "leader_epoch": 1,
        "log_end_offset": 2,
        "offset": 0,
        "high_watermark": 1,
        "due_to": "local high watermark",
    }
