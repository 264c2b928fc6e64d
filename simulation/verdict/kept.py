"""**NothingIsKept**: when all is quiet, a broker holds nothing for whom does not wait any more.

What is bounded (slots for requests to ZooKeeper, requests under way of a connection) is used up by
what is kept, until nothing goes on; what is not is memory for good. A run is too short for either,
so what is held is looked at.
"""

from collections.abc import Iterator
from typing import Final

from ackproof.broker.server.app import App
from ackproof.broker.server.controller.by_controller import ByController
from ackproof.broker.server.coordination.by_leaders import ByLeaders
from ackproof.broker.server.coordination.led_topics import LedTopics
from ackproof.broker.server.network.connections import PIPELINE, Connections, Later
from ackproof.broker.server.zk.session import REQUESTS_IN_FLIGHT_MAX
from simulation.model.observer import Observer
from simulation.verdict import patience
from simulation.verdict.settling import Cluster

GIVEN_BACK_S: Final = 15.0
"""Longer than what nobody waits for any more may be under way."""


async def check(cluster: Cluster, observer: Observer) -> None:
    """Raises Violation. Brokers have something under way all the time: each is looked at until
    there is a moment in which it has nothing that nobody waits for."""
    for broker in sorted(observer.registered):

        async def why(broker: int = broker) -> str | None:
            app = cluster.app(broker)
            told = None if app is None else next(kept(app), None)
            return told and f"broker {broker}: {told}"

        await patience.wait("NothingIsKept", GIVEN_BACK_S, why)


def kept(app: App) -> Iterator[str]:
    """What a broker has that nobody waits for."""
    yield from _for_zookeeper(app)
    yield from _for_groups(app)
    if app.connections is not None:
        yield from _for_connections(app.connections)
        yield from _in_purgatory(app, app.connections)
    if isinstance(app.coordinator, ByController):
        questions = app.coordinator._controller._questions
        if questions:
            yield f"{len(questions)} answers of the controller are waited for"
    if isinstance(app.coordinator, ByLeaders):
        yield from _without_a_controller(app.coordinator)
    if done := [task for task in (*app._tasks, *app._under_way) if task.done()]:
        yield f"{len(done)} tasks that are done are held"


def _without_a_controller(coordinator: ByLeaders) -> Iterator[str]:
    topics, outbox = coordinator.topics, coordinator._core._context.outbox
    assert isinstance(topics, LedTopics)
    if under_way := topics._creating | topics._deleting:
        yield f"topics {sorted(under_way)} count as being made or deleted"
    if topics._commands._waiting:
        yield f"{len(topics._commands._waiting)} commands are under way"
    if asked := len(outbox._waiting) + len(outbox._reading) + len(outbox._listing):
        yield f"{asked} answers of ZooKeeper are waited for"


def _for_zookeeper(app: App) -> Iterator[str]:
    session = app._zk.session
    if session._in_flight:
        yield f"{len(session._in_flight)} requests to ZooKeeper are under way"
    elif session._slots._value != REQUESTS_IN_FLIGHT_MAX:
        free = session._slots._value
        yield f"{free} of {REQUESTS_IN_FLIGHT_MAX} slots are free, and none is used"


def _for_groups(app: App) -> Iterator[str]:
    if app.groups is None:
        return
    for number, (shard, _) in app.groups._shards.items():
        if shard._waiting:
            asked = sorted({type(request).__name__ for request, _ in shard._waiting.values()})
            yield f"{asked} of groups of {number} wait"


def _for_connections(connections: Connections) -> Iterator[str]:
    counted = connections._quotas._by_address.total()
    if counted != len(connections):
        yield f"{counted} connections are counted, {len(connections)} are open"
    for connection in connections._open:
        who, transport = connection._peer.address, connection._transport
        if transport is None or transport.is_closing():
            yield f"the connection from {who} is closed, and is held"
        elif connection._held and len(connection._replies) < PIPELINE and connection._writable:
            yield f"the connection from {who} has room, and is not read"


def _in_purgatory(app: App, connections: Connections) -> Iterator[str]:
    """Followers wait there all the time, each with one request under way."""
    waited_for = sum(
        isinstance(reply, Later) for each in connections._open for reply in each._replies
    )
    purgatory = app._purgatory
    if purgatory.waiting > waited_for:
        yield f"{purgatory.waiting} requests wait, {waited_for} answers are waited for"
    delayed = {each for of in purgatory._delayed.values() for each in of}
    if len(delayed) > purgatory.waiting or any(each.answered.done() for each in delayed):
        yield f"{len(delayed)} requests may be woken, {purgatory.waiting} wait"
