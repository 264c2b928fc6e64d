"""One term of a controller: from its election to its end.

The term has the controller without I/O and the channels to the brokers. It reads from ZooKeeper
what events need, and carries out effects in their order. It ends with its session or with the next
election. Everything that it still has to do is then dropped.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import singledispatchmethod
from time import perf_counter
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import LiveBroker, PartitionState, TopicAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.events import Request, StateWrite
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.server import metrics
from ackproof.broker.server.admin import TopicConfigs
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerMoved, ControllerZk, Tenure
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired, ZkClosed
from ackproof.broker.types import NO_LEADER, BrokerId, ControllerEpoch, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataResponse

# --- state change log -----------------------------------------------------------------------------
#
# The controller's lines in Kafka's ``state.change.logger``, one JSON object per line.
#
# They report elections, writes, and requests to brokers.
# :mod:`broker.server.replication.partition` has the lines of the brokers that receive these
# requests.


state_change_logger = logging.getLogger("state.change.logger")


def log_request(
    event: str, broker: BrokerId, request: Request, error: ErrorCode | None = None
) -> None:
    """Log the state changes of a request: sender, receiver, content and epochs."""
    for change in _changes(request):
        line = {
            "event": event,
            "request": type(request).__name__.removesuffix("Request"),
            "to": broker,
            "controller": request.controller_id,
            "controller_epoch": request.controller_epoch,
            **change,
            "error": None if error in (None, ErrorCode.none) else error.name,
        }
        _record(line)


def log_tenure(event: str, controller: BrokerId, epoch: ControllerEpoch) -> None:
    """Log the beginning or the end of a term: ``elected`` or ``resigned``."""
    line = {"event": event, "controller": controller, "controller_epoch": epoch}
    _record(line)


def log_write(controller: BrokerId, write: StateWrite, *, written: bool) -> None:
    """Log that a partition's state was written, or that another write was faster."""
    line = {
        "event": "written" if written else "conflict",
        "request": "PartitionState",
        "controller": controller,
        "controller_epoch": write.controller_epoch,
        "partition": str(write.partition),
        "leader": write.leader,
        "leader_epoch": write.leader_epoch,
        "isr": write.isr,
        "expected_zk_version": write.expected,
    }
    _record(line)


def _changes(request: Request) -> Iterator[dict[str, Any]]:
    """Yield the changes of LeaderAndIsr and StopReplica by partition, and UpdateMetadata as a
    whole."""
    if isinstance(request, LeaderAndIsrRequest):
        for topic in request.topic_states:
            for role in topic.partition_states:
                yield {
                    "partition": f"{topic.topic_name}-{role.partition_index}",
                    "leader": role.leader,
                    "leader_epoch": role.leader_epoch,
                    "isr": role.isr,
                    "zk_version": role.zk_version,
                }
    elif isinstance(request, StopReplicaRequest):
        for stopped in request.topic_states:
            for stop in stopped.partition_states:
                yield {
                    "partition": f"{stopped.topic_name}-{stop.partition_index}",
                    "leader_epoch": stop.leader_epoch,
                    "delete": stop.delete_partition,
                }
    else:
        count = sum(len(topic.partition_states) for topic in request.topic_states)
        yield {"partitions": count, "live_brokers": [b.id for b in request.live_brokers]}


def _record(line: Mapping[str, object]) -> None:
    state_change_logger.info(
        json.dumps({key: value for key, value in line.items() if value is not None})
    )


# --- term -----------------------------------------------------------------------------------------


logger = logging.getLogger(__name__)


# --- requests to brokers --------------------------------------------------------------------------
#
# The controller's channel to one registration of one broker.
#
# Requests are sent one after the other, and each is repeated until the broker has answered. A
# broker must not hear of a newer state before an older one, nor miss one. A channel ends when the
# broker's registration vanishes, or with the controller's term. The remaining requests are dropped,
# because the broker will be told everything again.


RETRY_BACKOFF_S = 0.1

Response = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse
Answered = Callable[[BrokerId, Request, Response], None]


class Channel:
    """An ordered queue of requests to ``broker``.

    Args:
        spawn: starts the channel's task, and owns it.
        answered: called with each request's response.
    """

    def __init__(
        self,
        broker: BrokerId,
        connection: BrokerConnection,
        timeout_s: float,
        spawn: Spawn,
        answered: Answered,
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._timeout_s = timeout_s
        self._answered = answered
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._task = spawn(self._deliver_all())

    def send(self, request: Request) -> None:
        """Queue a request."""
        self._requests.put_nowait(request)

    def stop(self) -> None:
        """Stop sending, at once."""
        self._task.cancel()

    async def close(self) -> None:
        """Stop, and close the connection."""
        self.stop()
        await asyncio.wait([self._task])
        await self._connection.close()

    async def _deliver_all(self) -> None:
        while True:
            request = await self._requests.get()
            try:
                log_request("sent", self._broker, request)
                response = await self._deliver(request)
                log_request("acknowledged", self._broker, request, response.error_code)
                self._answered(self._broker, request, response)
            except Exception:
                # This must not end the broker: no other controller could send the request either.
                logger.exception("controller: broker %d: %s given up", self._broker, request)

    async def _deliver(self, request: Request) -> Response:
        while True:
            try:
                response: Response = await self._connection.call(request, self._timeout_s)
                return response
            except Disconnected as error:
                logger.warning("controller: broker %d: %s; trying again", self._broker, error)
                await asyncio.sleep(RETRY_BACKOFF_S)


# --- the term -------------------------------------------------------------------------------------


ASKED = (
    znodes.ISR_CHANGES,
    znodes.DELETE_TOPICS,
    znodes.PREFERRED_REPLICA_ELECTION,
    znodes.REASSIGN_PARTITIONS,
)
"""The paths with requests for the controller, which are read when a term has begun."""

WATCHED = (znodes.BROKER_IDS, znodes.TOPICS, *ASKED)

OVER = (ControllerMoved, SessionExpired, ZkClosed)
"""The errors that end a term."""

Enqueue = Callable[[events.Event], None]
Answer = Callable[[events.AnswerShutdown | events.Answer | events.Failed], None]
Look = Callable[[], None]
T = TypeVar("T")


class Term:
    """The controller's work in one epoch.

    Args:
        spawn: starts a task and owns it.
        enqueue: takes events that arise outside of :meth:`feed` (brokers' answers).
        answer: takes answers to the requests of brokers and clients.
        probe: the observer of the controller's steps.
    """

    def __init__(
        self,
        config: BrokerConfig,
        zk: KafkaZk,
        tenure: Tenure,
        spawn: Spawn,
        enqueue: Enqueue,
        answer: Answer,
        probe: Probe = NO_PROBE,
    ) -> None:
        self.tenure = tenure
        self.looking: set[str] = set()
        """The watched paths that are about to be read."""
        self._config = config
        self._zk = zk
        self._orders = ControllerZk(zk)
        self._controller = Controller(config.id)
        self._spawn = spawn
        self._enqueue = enqueue
        self._answer = answer
        self._probe = probe
        self._channels: dict[BrokerId, tuple[LiveBroker, Channel]] = {}
        self._dropped: list[Channel] = []
        self._looks: Mapping[str, Look] = {}
        self._topics: dict[str, TopicAssignment] = {}

    @property
    def context(self) -> Context | None:
        """The state of the controller, for others to read."""
        return self._controller.context

    def stop(self) -> None:
        """Stop sending to all brokers, at once."""
        for _, channel in self._channels.values():
            channel.stop()

    async def close(self) -> None:
        """Close all channels."""
        channels = [*self._dropped, *(channel for _, channel in self._channels.values())]
        self._channels, self._dropped = {}, []
        await asyncio.gather(*(channel.close() for channel in channels))

    # --- events from ZooKeeper --------------------------------------------------------------

    async def begin(self, looks: Mapping[str, Look]) -> None:
        """Read everything, and begin the term. ``looks`` has the callback of each watched path."""
        log_tenure("elected", self._config.id, self.tenure.epoch)
        self._looks = looks
        live = await self._zk.live_brokers(looks[znodes.BROKER_IDS])
        self._topics = await self._read_topics()
        await self.feed(
            events.Elected(
                epoch=self.tenure.epoch,
                live=live,
                topics=self._topics,
                states=await self._states(self._topics),
                unclean=await self._unclean(self._topics),
                waits_for_isr=self._config.ackproof_wait_for_isr,
                by_isr_order=self._config.ackproof_leader_by_isr_order,
            )
        )

    async def look(self, path: str) -> None:
        """Read a watched path, continue to watch it, and act on its content."""
        self.looking.discard(path)
        await {
            znodes.BROKER_IDS: self._brokers_changed,
            znodes.TOPICS: self._topics_changed,
            znodes.ISR_CHANGES: self._isr_changed,
            znodes.DELETE_TOPICS: self._deletion_asked,
            znodes.PREFERRED_REPLICA_ELECTION: self._preferred_election_asked,
            znodes.REASSIGN_PARTITIONS: self._reassignment_asked,
        }[path]()

    async def _brokers_changed(self) -> None:
        live = await self._zk.live_brokers(self._looks[znodes.BROKER_IDS])
        if self.context is not None:
            log_broker_changes(self._config.id, self.context.live, live)
        await self.feed(events.BrokersChanged(live=live))

    async def _topics_changed(self) -> None:
        before, self._topics = self._topics, await self._read_topics()
        changed = {t: a for t, a in self._topics.items() if before.get(t) != a}
        await self.feed(
            events.TopicsChanged(
                topics=changed,
                gone=frozenset(before.keys() - self._topics.keys()),
                states=await self._states(changed),
                unclean=await self._unclean(changed),
            )
        )

    async def _read_topics(self) -> dict[str, TopicAssignment]:
        """Return all topics, each with an id. A topic whose node can no longer be parsed keeps its
        last known state."""
        look = self._looks[znodes.TOPICS]
        names = await self._zk.topics(look)
        known = {name: self._topics[name] for name in names & self._topics.keys()}
        read = await self._zk.topic_assignments(names, look)
        return known | await self._orders.identified(self.tenure, read, known)

    async def _isr_changed(self) -> None:
        changes = await self._orders.isr_changes(self._looks[znodes.ISR_CHANGES])
        if changes:
            named = {tp for tps in changes.values() for tp in tps}
            states = await self._zk.partition_states(named)
            await self.feed(events.IsrChanged(notifications=tuple(changes), states=states))

    async def _deletion_asked(self) -> None:
        topics = await self._orders.topics_to_delete(self.tenure, self._looks[znodes.DELETE_TOPICS])
        if self._config.delete_topic_enable:
            if topics:
                await self.feed(events.DeletionAsked(topics=topics))
            return
        for topic in sorted(topics):
            logger.warning("delete.topic.enable=false: topic %s stays", topic)
            await self._orders.delete(self.tenure, f"{znodes.DELETE_TOPICS}/{topic}")

    async def _preferred_election_asked(self) -> None:
        path = znodes.PREFERRED_REPLICA_ELECTION
        partitions = await self._asked(path, self._orders.preferred_election)
        if partitions is not None:
            await self.feed(events.PreferredElectionAsked(partitions=partitions))

    async def _reassignment_asked(self) -> None:
        path = znodes.REASSIGN_PARTITIONS
        targets = await self._asked(path, self._orders.reassignments)
        if targets:
            await self.feed(events.ReassignmentAsked(targets=targets))

    async def _asked(self, path: str, read: Callable[[Look], Awaitable[T]]) -> T | None:
        """Return the operator's request in a znode. A malformed node is removed: it must not bring
        down one controller after the other."""
        try:
            return await read(self._looks[path])
        except znodes.MalformedNode as error:
            logger.error("removing a malformed node: %s", error)
            await self._orders.delete(self.tenure, path)
            return None

    async def _states(
        self, topics: Mapping[str, TopicAssignment]
    ) -> dict[TopicPartition, PartitionState]:
        return await self._zk.partition_states(
            TopicPartition(topic, p) for topic, a in topics.items() for p in a.partitions
        )

    async def _unclean(self, topics: Iterable[str]) -> frozenset[str]:
        """Return the topics with unclean elections, by their own setting or the broker's
        default."""
        names = list(topics)
        configs = TopicConfigs(self._config, self._zk)
        await configs.load_defaults()
        loaded = await asyncio.gather(*(configs.load(name) for name in names))
        return frozenset(
            name
            for name, config in zip(names, loaded, strict=True)
            if config.unclean_leader_election_enable
        )

    async def configs_changed(self, topics: Collection[str] | None) -> None:
        """Take over settings of these topics, or with None of all, that may have changed."""
        names = self._topics.keys() if topics is None else self._topics.keys() & set(topics)
        unclean = await self._unclean(names)
        enabled = {name: name in unclean for name in sorted(names)}
        await self.feed(events.UncleanElectionsChanged(enabled=enabled))

    # --- effects ----------------------------------------------------------------------------

    async def feed(self, event: events.Event) -> None:
        """Feed an event to the controller and carry out its effects.

        Raises:
            ControllerMoved, SessionExpired: the term is over.
        """
        waiting = deque([event])
        while waiting:
            event = waiting.popleft()
            if isinstance(event, events.Elected | events.BrokersChanged):
                self._follow(event.live.values())
            effects = self._controller.step(event)
            self._probe.controller_stepped(self._controller, event, effects)
            for effect in effects:
                outcome = await self._attempt(effect)
                if outcome is not None:
                    waiting.append(outcome)

    async def _attempt(self, effect: events.Effect) -> events.Event | None:
        """Carry out an effect. A failure costs only this effect. If the rest were dropped with it,
        brokers would miss roles that the controller considers as sent."""
        try:
            return await self._carry_out(effect)
        except OVER:
            raise
        except Exception:
            logger.exception("controller: %s could not be carried out", effect)
            if isinstance(effect, events.WriteStates):
                unknown = {write.partition: None for write in effect.writes}
                return events.StatesWritten(written={}, conflicts=unknown)
            return None

    def _follow(self, live: Iterable[LiveBroker]) -> None:
        """Keep one channel for each registration."""
        now = {broker.info.broker_id: broker for broker in live}
        for broker, (known, channel) in list(self._channels.items()):
            if now.get(broker) != known:
                channel.stop()
                self._dropped.append(channel)
                del self._channels[broker]
        for broker, registered in now.items():
            if broker not in self._channels:
                self._channels[broker] = (registered, self._open(registered))

    def _open(self, broker: LiveBroker) -> Channel:
        endpoint = broker.info.endpoints[0]
        name = f"controller-{self._config.id}"
        return Channel(
            broker.info.broker_id,
            BrokerConnection(endpoint.host, endpoint.port, name),
            self._config.controller_socket_timeout_ms / 1000,
            self._spawn,
            self._answered,
        )

    def _answered(self, broker: BrokerId, request: events.Request, response: Response) -> None:
        if response.error_code is not ErrorCode.none:
            logger.error(
                "broker %d refuses %s: %s", broker, type(request).__name__, response.error_code.name
            )
        if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
            errors = _deletion_errors(request, response)
            if errors:
                self._enqueue(events.StopReplicaAnswered(broker=broker, errors=errors))

    @singledispatchmethod
    async def _carry_out(self, effect: Any) -> events.Event | None:
        raise TypeError(f"unknown effect {effect!r}")

    @_carry_out.register
    async def _(self, effect: events.WriteStates) -> events.Event | None:
        began = perf_counter()
        outcome = await self._orders.write_states(self.tenure, effect.writes)
        self._count_elections(effect.writes, outcome, perf_counter() - began)
        for write in effect.writes:
            log_write(self._config.id, write, written=write.partition in outcome.written)
        return outcome

    def _count_elections(
        self, writes: Iterable[events.StateWrite], outcome: events.StatesWritten, seconds: float
    ) -> None:
        """Count elections before the controller hears of the outcome, while it still has the old
        leaders."""
        known = {} if self.context is None else self.context.states
        elected = [
            (known[write.partition], write.leader)
            for write in writes
            if write.partition in outcome.written
            and write.partition in known
            and write.leader not in (NO_LEADER, known[write.partition].leader)
        ]
        metrics.elected([leader in old.isr for old, leader in elected], seconds)

    @_carry_out.register
    async def _(self, effect: events.Send) -> None:
        channel = self._channels.get(effect.broker)
        if channel is not None:
            channel[1].send(effect.request)

    @_carry_out.register
    async def _(self, effect: events.WriteAssignment) -> None:
        await self._orders.write_assignment(self.tenure, effect.topic, effect.assignment)

    @_carry_out.register
    async def _(self, effect: events.DropIsrChanges) -> None:
        for path in effect.notifications:
            await self._orders.delete(self.tenure, path)

    @_carry_out.register
    async def _(self, _effect: events.DropPreferredElection) -> None:
        await self._orders.delete(self.tenure, znodes.PREFERRED_REPLICA_ELECTION)

    @_carry_out.register
    async def _(self, effect: events.DropReassignments) -> None:
        if effect.refused is not None:
            logger.error("reassignment refused: %s", effect.refused)
        await self._orders.drop_reassignments(self.tenure, effect.partitions)

    @_carry_out.register
    async def _(self, effect: events.DeleteTopic) -> None:
        logger.info("topic %s (id %s) is deleted", effect.topic, effect.topic_id)
        await self._orders.delete_topic(self.tenure, effect.topic, effect.topic_id)

    @_carry_out.register
    async def _(self, effect: events.DropDeletion) -> None:
        await self._orders.delete(self.tenure, f"{znodes.DELETE_TOPICS}/{effect.topic}")

    @_carry_out.register
    async def _(self, effect: events.Failed) -> None:
        logger.error("controller: %s: %r", effect.what, effect.error, exc_info=effect.error)
        if effect.token is not None:
            self._answer(effect)

    @_carry_out.register
    async def _(self, effect: events.AnswerShutdown) -> None:
        self._answer(effect)

    @_carry_out.register
    async def _(self, effect: events.Answer) -> None:
        self._answer(effect)


def _deletion_errors(
    request: StopReplicaRequest, response: StopReplicaResponse
) -> dict[TopicPartition, ErrorCode]:
    """Return the outcome for the partitions that were to be deleted."""
    errors = {
        TopicPartition(e.topic_name, e.partition_index): e.error_code
        for e in response.partition_errors
    }
    return {
        tp: errors.get(tp, response.error_code)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
        for tp in (TopicPartition(topic.topic_name, state.partition_index),)
    }


# --- log messages ---------------------------------------------------------------------------------
#
# The controller's log messages about brokers that start or fail, in the words of Kafka 0.8
# (*Failover*, "Broker failure" and "Broker startup").


def log_broker_changes(
    controller: BrokerId,
    known: Mapping[BrokerId, LiveBroker],
    live: Mapping[BrokerId, LiveBroker],
) -> None:
    """Log which brokers have come and gone since ``known``, if any has.

    A broker that has registered again in between counts as gone and as come, as for the controller
    itself. Kafka 0.8 did not notice it.
    """
    same = {broker for broker in known.keys() & live if known[broker].epoch == live[broker].epoch}
    added, deleted = live.keys() - same, known.keys() - same
    if not added and not deleted:
        return
    logger.info(
        "[BrokerChangeListener on Controller %d]: Newly added brokers: %s, deleted brokers: %s, "
        "all live brokers: %s",
        controller,
        _ids(added),
        _ids(deleted),
        _ids(live),
    )
    if deleted:
        logger.info("[Controller %d]: Broker failure callback for %s", controller, _ids(deleted))
    if added:
        logger.info("[Controller %d]: New broker startup callback for %s", controller, _ids(added))


def _ids(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, sorted(brokers)))
