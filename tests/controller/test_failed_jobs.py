"""Failures of the controller at one partition: they affect that partition alone."""

import asyncio
import json
import logging

import pytest

from ackproof.broker.controller import events
from ackproof.broker.controller.state_machines import IllegalTransition
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.support.worlds.controller_cluster import cluster, run, until
from tests.support.worlds.controller_world import World

GOOD, BAD = TopicPartition("good", 0), TopicPartition("bad", 0)


class Tolerant(World):
    """Keeps failures instead of raising them."""

    def __init__(self):
        super().__init__()
        self.failures = []

    def failed(self, effect):
        self.failures.append(effect)


@pytest.fixture
def world():
    made = Tolerant()
    for broker in (1, 2, 3):
        made.register(broker)
    made.elect()
    made.topic("bad", (1, 2))
    made.topic("good", (1, 2))
    return made


def plant(world):
    """A partition that is in no state any step may be taken from."""
    world.controller.context.partition_phases.forget(BAD)


def test_one_partition_in_an_impossible_state_does_not_keep_the_others_from_their_leaders(world):
    plant(world)
    world.brokers(2, 3)
    assert world.state(GOOD) == (2, (2,), 1)
    assert world.told[2, GOOD].leader == 2
    assert {failure.what for failure in world.failures} == {"bad-0"}
    assert {type(failure.error) for failure in world.failures} == {IllegalTransition}
    world.brokers(1, 2, 3)
    assert world.told[1, GOOD].leader == 2


def test_failed_request_is_reported_to_its_caller(world):
    plant(world)
    world.controller._epoch._handlers = {
        **world.controller._epoch._handlers,
        events.ElectionAsked: lambda _event: {}["no such key"],
    }
    world.feed(events.ElectionAsked(partitions=(GOOD,), unclean=False, token=7))
    (failure,) = world.failures
    assert (failure.what, failure.token) == ("ElectionAsked", 7)
    assert isinstance(failure.error, KeyError)
    world.brokers(2, 3)
    assert world.state(GOOD) == (2, (2,), 1)


def test_an_election_among_impossible_topics_elects_for_the_rest(world):
    """A replica twice: a person wrote the node, and every controller would meet it."""
    assigned = world.topics["bad"].partitions[0]
    world.topics["bad"].partitions[0] = type(assigned)(replicas=(1, 1))
    world.unregister(1)
    world.elect()
    assert world.state(GOOD) == (2, (2,), 1)
    assert "bad-0" in {failure.what for failure in world.failures}


@pytest.mark.integration
def test_unleadable_topic_does_not_end_controllers_one_after_another(zookeeper, admin, caplog):
    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            node = json.dumps({"version": 1, "partitions": {"0": [2, 2]}}).encode()
            await asyncio.to_thread(admin.create, "/brokers/topics/bad", node)
            await made.brokers[2].zk.create_topic("good", {0: [1, 2]}, {})
            await made.state(GOOD, lambda state: state.leader == 1)
            await until(lambda: made.active() == [1])
            await until(lambda: GOOD in made.brokers[2].roles)
            await made.remove(1)
            await made.state(GOOD, lambda state: state.leader == 2)
            await until(lambda: made.active() == [2])
            roles = [r for r in made.brokers[2].requests if isinstance(r, LeaderAndIsrRequest)]
            assert roles

    caplog.set_level(logging.ERROR)
    run(main())
    failed = [record for record in caplog.records if "bad-0" in record.getMessage()]
    assert failed
    assert failed[0].exc_info


@pytest.mark.integration
def test_a_job_that_fails_is_logged_and_the_next_one_is_done(zookeeper, caplog):
    async def main():
        async with cluster(zookeeper, 1) as made:
            runtime = made.controllers[1]
            failed = asyncio.Event()

            async def fail(_group):
                failed.set()
                raise LookupError("on purpose")

            runtime._jobs.put_nowait((None, "failing", fail))
            # The election is a job, too, and may find the topic all by itself.
            await failed.wait()
            await made.brokers[1].zk.create_topic("good", {0: [1]}, {})
            await made.state(GOOD, lambda state: state.leader == 1)
            await until(lambda: made.active() == [1])

    run(main())
    assert "failing" in caplog.text
    assert "on purpose" in caplog.text


@pytest.mark.integration
def test_controller_that_fails_to_take_office_resigns(zookeeper, caplog):
    """Test a state that broker 1 cannot work with at its election, and broker 2 can."""

    async def main():
        async with cluster(zookeeper, 1) as made:
            await made.add(2)
            runtime = made.controllers[2]

            async def fail(_topics):
                raise LookupError("on purpose")

            zk = made.brokers[1].zk
            zk.partition_states, right = fail, zk.partition_states
            await runtime._zk.session.request(lambda c: c.delete_async("/controller"))
            await until(lambda: "taking office in epoch" in caplog.text or 2 in made.active())
            await until(lambda: 2 in made.active())
            zk.partition_states = right

    caplog.set_level(logging.ERROR)
    run(main())


@pytest.mark.integration
def test_a_write_that_fails_does_not_leave_its_partition_alone_for_ever(zookeeper, caplog):
    async def main():
        async with cluster(zookeeper, 1, 2) as made:
            orders = made.controllers[1]._term._orders
            right = orders.write_states

            async def fail(_tenure, _writes):
                orders.write_states = right
                raise LookupError("on purpose")

            orders.write_states = fail
            await made.brokers[1].zk.create_topic("good", {0: [2, 1]}, {})
            await until(lambda: "could not be carried out" in caplog.text)
            await until(lambda: made.active() == [1])
            await made.remove(2)
            await made.state(GOOD, lambda state: state.leader == 1)

    caplog.set_level(logging.ERROR)
    run(main())
