"""A term of office ends at once, whole and once: what the ended one left says nothing more."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.events import RebalanceLeaders
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.kafka_zk import ConfigZk, of_topic
from ackproof.broker.server.zk.session import ZkClosed
from ackproof.broker.types import NO_LEADER, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from tests.support.fakes.instant_zookeeper import InstantZookeeper
from tests.support.fakes.listening_broker import ListeningBroker
from tests.support.worlds.controller_cluster import cluster_in_memory, run, until

TP = TopicPartition("orders", 0)


@pytest.fixture
def zookeeper():
    return InstantZookeeper()


async def settled():
    """All that is ready in the loop has been done, sockets on loopback included."""
    for _ in range(50):
        await asyncio.sleep(0)


def listener(broker_id, zookeeper):
    """A broker that does not contest the office."""
    return ListeningBroker(broker_id, zookeeper.client(broker_id))


def test_unregistered_broker_is_not_elected_controller(zookeeper):
    """The first thing it sees would be the absence of its own broker: of what it leads, others
    would be made leaders."""

    async def main():
        async with cluster_in_memory(zookeeper) as made:
            broker = await made.add(1, zk=zookeeper.client(1))
            await until(lambda: made.active() == [1])
            await broker.zk.create_topic("orders", {0: [1]}, {})
            await until(lambda: TP in broker.roles)
            broker.zk.expire()
            await until(lambda: not made.active())
            broker.zk.renew()
            await settled()
            assert zookeeper.node(znodes.CONTROLLER) is None
            assert not made.active()
            await broker.register()
            await until(lambda: made.active() == [1])
            assert (await made.state(TP, lambda _: True)).leader == 1

    run(main())


async def occupied(runtime):
    """The controller is at a job that does not end by itself; returns what ends it."""
    at_it, over = asyncio.Event(), asyncio.Event()

    async def job(_group):
        at_it.set()
        await over.wait()

    runtime._jobs.put_nowait((None, "a long job", job))
    await at_it.wait()
    return over.set


def test_with_its_session_a_term_ends_at_once(zookeeper):
    """Not when the job in hand is done, nor at the next election: until this broker is registered
    again, which takes as long as its former registration stays, there may be two controllers."""

    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            zk, runtime, other = made.brokers[1].zk, made.controllers[1], listener(2, zookeeper)
            other.answering.clear()
            await other.start()
            await zk.create_topic("orders", {0: [2], 1: [2]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            await zk.create_topic("more", {0: [2]}, {})
            await made.state(TopicPartition("more", 0), lambda s: s.leader == 2)
            end_job = await occupied(runtime)
            asked = asyncio.create_task(runtime.elect_leaders(None, unclean=False))
            await settled()
            before = len(other.requests)
            assert not asked.done()
            zk.expire()
            await settled()
            assert runtime.context is None
            assert asked.done()
            assert asked.result() is None
            other.answering.set()
            await settled()
            assert len(other.requests) == before, "said in a term that is over"
            end_job()
            await other.close()

    run(main())


def test_watch_of_an_ended_term_is_left_to_the_next_term(zookeeper):
    """Its write would be refused, and that refusal taken for the end of the term that now is: with
    ``/controller`` held, and no controller in office."""

    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            runtime, other = made.controllers[1], listener(2, zookeeper)
            await other.start()
            await other.zk.create_topic("orders", {0: [2, 1]}, {})
            await until(lambda: other.told_of(TP))
            first = runtime.context
            zookeeper.delete(znodes.CONTROLLER)
            await until(lambda: runtime.context not in (None, first))
            await until(lambda: [r for r in other.requests if r.controller_epoch == 2])
            other.zk.expire()
            state = await made.state(TP, lambda s: s.leader == 1)
            assert state.controller_epoch == 2
            await settled()
            assert made.active() == [1]
            await other.close()

    run(main())


def test_other_holder_of_the_controller_node_has_the_office(zookeeper):
    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            runtime, term = made.controllers[1], made.controllers[1]._term
            zookeeper.set(znodes.CONTROLLER, znodes.encode_controller(1, 0))
            await settled()
            assert runtime._term is term, "it is the controller already"
            zookeeper.delete(znodes.CONTROLLER)
            zookeeper.create(znodes.CONTROLLER, znodes.encode_controller(2, 0))
            await settled()
            assert not runtime.active
            zookeeper.delete(znodes.CONTROLLER)
            await until(lambda: runtime.active)
            assert runtime.context.epoch == term.tenure.epoch + 1

    run(main())


def test_a_node_of_our_former_life_is_waited_for(zookeeper):
    """It names this broker, and its session is over soon: no controller is in office by it."""

    async def main():
        zookeeper.create(znodes.CONTROLLER, znodes.encode_controller(1, 0))
        async with cluster_in_memory(zookeeper) as made:
            await made.add(1, zk=zookeeper.client(1))
            await settled()
            assert not made.active()
            zookeeper.delete(znodes.CONTROLLER)
            await until(made.active)

    run(main())


def test_a_controller_that_was_deposed_finds_out_by_its_write(zookeeper):
    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            runtime = made.controllers[1]
            zookeeper.set(znodes.CONTROLLER_EPOCH, b"7")
            await made.brokers[1].zk.create_topic("orders", {0: [1]}, {})
            await until(lambda: not runtime.active)
            assert zookeeper.node(znodes.partition_state(TP)) is None
            zookeeper.delete(znodes.CONTROLLER)
            await until(lambda: runtime.active)
            assert runtime.context.epoch == 8
            await made.state(TP, lambda s: s.controller_epoch == 8)

    run(main())


@pytest.mark.parametrize("how", ["its session ends", "it stops"])
def test_an_ended_term_lets_go_of_its_connections(zookeeper, how):
    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            other = listener(2, zookeeper)
            await other.start()
            await until(lambda: other._writers)
            if how == "it stops":
                await made.remove(1)
            else:
                made.brokers[1].zk.expire()
                made.brokers[1].zk.renew()
                await settled()
                await made.brokers[1].register()
            former = set(other._writers)
            await until(lambda: former.isdisjoint(other._writers))
            await other.close()

    run(main())


def test_word_that_was_left_while_there_was_no_controller_is_heard(zookeeper):
    async def main():
        async with cluster_in_memory(zookeeper) as made:
            first = listener(2, zookeeper)
            await first.start()
            await first.zk.create_topic("orders", {0: [2]}, {})
            await first.zk.delete_topic("orders")
            await made.add(1, zk=zookeeper.client(1))
            await until(lambda: zookeeper.node(znodes.topic("orders")) is None)
            await first.close()

    run(main())


def test_only_the_controller_answers_and_failures_are_reported(zookeeper):
    shutdown = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)

    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            runtime = made.controllers[1]
            await made.brokers[1].zk.create_topic("orders", {0: [1, 2]}, {})
            await made.state(TP, lambda s: s.leader == 1)
            outcomes = await runtime.elect_leaders((TP,), unclean=False)
            assert outcomes[TP].error is ErrorCode.election_not_needed
            outcomes = await runtime.alter_reassignments({TP: None})
            assert outcomes[TP].error is ErrorCode.no_reassignment_in_progress
            answer = await runtime.controlled_shutdown(shutdown)
            assert answer.error_code is ErrorCode.none
            assert [r.topic_name for r in answer.remaining_partitions] == ["orders"]
            with pytest.raises(TypeError):
                await runtime.alter_reassignments({TP: 5})
            assert runtime._questions == {}
            made.brokers[1].zk.expire()
            await settled()
            assert await runtime.elect_leaders((TP,), unclean=False) is None
            assert await runtime.alter_reassignments({TP: None}) is None
            answer = await runtime.controlled_shutdown(shutdown)
            assert answer.error_code is ErrorCode.not_controller
            assert answer.remaining_partitions == ()

    run(main())


def test_controller_with_a_closed_client_ends(zookeeper):
    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            life = made._tasks[1]
            made._tasks[1] = asyncio.create_task(asyncio.Event().wait())
            await made.brokers[1].zk.close()
            made.controllers[1].configs_changed(None)
            with pytest.raises(ExceptionGroup) as told:
                await asyncio.wait_for(life, 20)
            assert told.group_contains(ZkClosed)

    run(main())


def test_settings_that_change_reach_the_term_that_is(zookeeper, caplog):
    async def main():
        async with cluster_in_memory(zookeeper, 1) as made:
            runtime, other = made.controllers[1], listener(2, zookeeper)
            await other.start()
            await other.zk.create_topic("orders", {0: [2, 1]}, {})
            await made.state(TP, lambda s: s.leader == 2)
            await isr_of(other.zk, 2)
            other.zk.expire()
            await made.state(TP, lambda s: s.leader == NO_LEADER, seen_by=1)
            settings = {"unclean.leader.election.enable": "true"}
            await ConfigZk(made.brokers[1].zk).change(of_topic("orders"), lambda _: settings)
            runtime.configs_changed({"orders"})
            await made.state(TP, lambda s: s.leader == 1)
            made.brokers[1].zk.expire()
            await settled()
            runtime.configs_changed({"orders"})
            runtime._enqueue(RebalanceLeaders(imbalance_percentage=0))
            made.brokers[1].zk.renew()
            await settled()
            await made.brokers[1].register()
            await until(made.active)
            await other.close()

    run(main())
    assert "failed" not in caplog.text


async def isr_of(zk, leader):
    """The leader is alone in its ISR from now on, and the controller knows."""
    state = (await zk.partition_states([TP]))[TP]
    await zk.write_isr(
        TP,
        leader=leader,
        leader_epoch=state.leader_epoch,
        controller_epoch=state.controller_epoch,
        isr=(leader,),
        zk_version=state.zk_version,
    )
    await zk.notify_isr_change([TP])
    path = znodes.ISR_CHANGES
    while await zk.session.children(path):
        await asyncio.sleep(0)
