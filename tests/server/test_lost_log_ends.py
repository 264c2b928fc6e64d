"""A leader that comes back with a shorter log and leads on in its epoch (no controller of ours lets
it, see tests/controller/test_bounces.py): its followers neither join in nor keep quiet."""

import logging

from ackproof.broker.server.metrics import LEADERS_LOST_RECORDS
from ackproof.broker.types import TopicPartition
from tests.support.worlds.replica_hosts import elect, hosts, run, until

TP = TopicPartition("t", 0)


def test_follower_stops_fetching_from_a_leader_that_lost_served_records(tmp_path, caplog):
    async def story():
        async with hosts(tmp_path, 1, 2) as brokers:
            leader, follower = brokers[1], brokers[2]
            await elect(brokers, TP, 1, 0, (1, 2))
            for value in (b"a", b"b", b"c"):
                await leader.produce(TP, value)
            acked = follower.values(TP)
            await leader.stop()
            alarms = LEADERS_LOST_RECORDS._value.get()
            for path in (leader.directory / str(TP)).glob("*.log"):
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])  # the first batch
            await leader.start()
            await elect(brokers, TP, 1, 0, (1, 2), to=(1,))
            assert leader.partition(TP).log.log_end_offset == 1
            await until(lambda: LEADERS_LOST_RECORDS._value.get() > alarms)
            for value in (b"x", b"y", b"z"):
                leader.produce(TP, value, acks=1)
            waiting = leader.produce(TP, b"more", timeout_ms=200)
            await until(lambda: leader.replicas.tick() or waiting.done())
            assert waiting.result().error.name == "request_timed_out", "never counted as in sync"
            assert follower.values(TP) == acked
            assert "has lost records that it served in leader epoch 0" in caplog.text
            await elect(brokers, TP, 2, 1, (2,), to=(2,))
            assert follower.values(TP) == acked
            assert not leader.halted
            assert not follower.halted

    caplog.set_level(logging.ERROR)
    run(story())
