"""The requests to brokers, and the other effects of one step, in their order."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from ackproof.broker.controller.cluster import (
    SECURITY_PROTOCOLS,
    BrokerInfo,
    Endpoint,
    PartitionState,
)
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Effect, Failed, Send, StateWrite, WriteStates
from ackproof.broker.controller.state_machines import ReplicaPhase
from ackproof.broker.types import LEADER_DURING_DELETE, BrokerId, LeaderEpoch, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ackproof.broker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

LEADER_AND_ISR_INCREMENTAL: Final = 1
"""``LeaderAndIsrRequest.type_``: the request names some partitions, and others stay as they are."""

LEADER_AND_ISR_FULL: Final = 2
"""``LeaderAndIsrRequest.type_``: the request names every partition of the broker (KIP-516). It is
sent first to a broker that has just started."""


# --- requests -------------------------------------------------------------------------------------
#
# Collects the changes to send, and makes one request of each kind per broker.
#
# Within a batch a broker first hears of leaders (LeaderAndIsr), then of metadata (UpdateMetadata),
# then of replicas to stop (StopReplica), as with Kafka's ``ControllerBrokerRequestBatch``.


EPOCH_DURING_DELETE = LeaderEpoch(-2)


class RequestBatch:
    """The requests that are being collected, from ``controller_id`` and in the context's epoch.

    Leaders are named by their endpoint of ``inter_broker_listener``, or else by their first one.
    """

    def __init__(self, controller_id: BrokerId, inter_broker_listener: str) -> None:
        self._controller_id = controller_id
        self._listener = inter_broker_listener
        self._clear()

    def _clear(self) -> None:
        self._roles: dict[BrokerId, dict[TopicPartition, LeaderAndIsrPartitionState]] = defaultdict(
            dict
        )
        self._full: set[BrokerId] = set()
        self._stops: dict[BrokerId, dict[TopicPartition, StopReplicaPartitionState]] = defaultdict(
            dict
        )
        self._metadata: dict[BrokerId, set[TopicPartition]] = defaultdict(set)

    def role(
        self, context: Context, broker: BrokerId, tp: TopicPartition, replicas: tuple[BrokerId, ...]
    ) -> None:
        """Tell ``broker`` the leader of ``tp``, and that ``replicas`` are the partition's."""
        state, assignment = context.states[tp], context.assignment(tp)
        self._roles[broker][tp] = LeaderAndIsrPartitionState(
            partition_index=tp.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=state.zk_version,
            replicas=replicas,
            adding_replicas=assignment.adding if assignment else (),
            removing_replicas=assignment.removing if assignment else (),
            is_new=context.replica_phases[tp, broker] is ReplicaPhase.NEW,
        )

    def complete(self, broker: BrokerId) -> None:
        """Declare the roles for ``broker`` in this batch to be all that it has."""
        self._full.add(broker)

    def stop(
        self, broker: BrokerId, tp: TopicPartition, epoch: LeaderEpoch, *, delete: bool
    ) -> None:
        """Tell ``broker`` to stop its replica of ``tp``, and whether to delete it."""
        self._stops[broker][tp] = StopReplicaPartitionState(
            partition_index=tp.partition, leader_epoch=epoch, delete_partition=delete
        )

    def metadata(self, brokers: Iterable[BrokerId], tps: Iterable[TopicPartition]) -> None:
        """Tell ``brokers`` which brokers are live, and the states of ``tps``."""
        listed = set(tps)
        for broker in brokers:
            self._metadata[broker] |= listed

    def drain(self, context: Context) -> list[Send]:
        """Return the requests for live brokers, and empty the batch."""
        sends = [
            Send(broker=broker, request=request)
            for broker in sorted(context.live)
            for request in self._requests(context, broker)
        ]
        self._clear()
        return sends

    def _requests(
        self, context: Context, broker: BrokerId
    ) -> Iterable[LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest]:
        if broker in self._roles or broker in self._full:
            yield self._leader_and_isr(context, broker)
        if broker in self._metadata:
            yield self._update_metadata(context, broker)
        if broker in self._stops:
            yield self._stop_replica(context, broker)

    def _leader_and_isr(self, context: Context, broker: BrokerId) -> LeaderAndIsrRequest:
        roles = self._roles[broker]
        leaders = sorted({state.leader for state in roles.values()} & context.live.keys())
        full = broker in self._full
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.live[broker].epoch,
            type_=LEADER_AND_ISR_FULL if full else LEADER_AND_ISR_INCREMENTAL,
            topic_states=tuple(
                LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=context.topics[topic].topic_id,
                    partition_states=tuple(roles[tp] for tp in tps),
                )
                for topic, tps in _by_topic(roles)
            ),
            live_leaders=tuple(self._live_leader(context.live[b].info) for b in leaders),
        )

    def _live_leader(self, info: BrokerInfo) -> LeaderAndIsrLiveLeader:
        named = [e for e in info.endpoints if e.listener == self._listener]
        endpoint = (named or list(info.endpoints))[0]
        return LeaderAndIsrLiveLeader(
            broker_id=info.broker_id, host_name=endpoint.host, port=endpoint.port
        )

    def _stop_replica(self, context: Context, broker: BrokerId) -> StopReplicaRequest:
        stops = self._stops[broker]
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.live[broker].epoch,
            topic_states=tuple(
                StopReplicaTopicState(
                    topic_name=topic, partition_states=tuple(stops[tp] for tp in tps)
                )
                for topic, tps in _by_topic(stops)
            ),
        )

    def _update_metadata(self, context: Context, broker: BrokerId) -> UpdateMetadataRequest:
        known = [tp for tp in self._metadata[broker] if tp in context.states]
        return UpdateMetadataRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.live[broker].epoch,
            topic_states=tuple(
                UpdateMetadataTopicState(
                    topic_name=topic,
                    topic_id=context.topics[topic].topic_id,
                    partition_states=tuple(_metadata_of(context, tp) for tp in tps),
                )
                for topic, tps in _by_topic(known)
            ),
            live_brokers=tuple(_broker(context.live[b].info) for b in sorted(context.live)),
        )


def _metadata_of(context: Context, tp: TopicPartition) -> UpdateMetadataPartitionState:
    state: PartitionState = context.states[tp]
    assignment = context.assignment(tp)
    replicas = assignment.replicas if assignment else ()
    return UpdateMetadataPartitionState(
        partition_index=tp.partition,
        controller_epoch=state.controller_epoch,
        leader=LEADER_DURING_DELETE if context.deletes(tp.topic) else state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        zk_version=state.zk_version,
        replicas=replicas,
        offline_replicas=tuple(r for r in replicas if r not in context.live),
    )


def _broker(info: BrokerInfo) -> UpdateMetadataBroker:
    def endpoint(one: Endpoint) -> UpdateMetadataEndpoint:
        return UpdateMetadataEndpoint(
            port=one.port,
            host=one.host,
            listener=one.listener,
            security_protocol=SECURITY_PROTOCOLS[one.security_protocol],
        )

    return UpdateMetadataBroker(
        id=info.broker_id, endpoints=tuple(map(endpoint, info.endpoints)), rack=info.rack
    )


def _by_topic(tps: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for tp in sorted(tps):
        grouped.setdefault(tp.topic, []).append(tp)
    return list(grouped.items())


# --- effects --------------------------------------------------------------------------------------
#
# Effects of one step, in their order.


class Outbox:
    """The effects of a step. Requests to brokers are batched until :meth:`flush`."""

    def __init__(self, controller_id: BrokerId, inter_broker_listener: str) -> None:
        self.batch = RequestBatch(controller_id, inter_broker_listener)
        self._effects: list[Effect] = []
        self._writes: list[StateWrite] = []

    def put(self, effect: Effect) -> None:
        """Add an effect."""
        self._effects.append(effect)

    def each(self, tps: Iterable[TopicPartition], action: Callable[[TopicPartition], None]) -> None:
        """Call ``action`` for each of ``tps``, even if it fails for others.

        Suppose an operator writes ``{"0": [1, 1]}`` into a topic's znode. If that ended the
        election in the middle, the later partitions would get no leader, from this controller and
        the next.
        """
        for tp in tuple(tps):
            self.attempt(str(tp), partial(action, tp))

    def attempt(self, what: str, action: Callable[[], None]) -> None:
        """Call ``action``, or report that it failed."""
        try:
            action()
        except Exception as error:  # noqa: BLE001  reported, with what it was about
            self.put(Failed(what=what, error=error))

    def write(self, write: StateWrite) -> None:
        """Add a state write to the step's :class:`WriteStates`, which comes last."""
        self._writes.append(write)

    def flush(self, context: Context) -> None:
        """Turn the batch into effects. Effects that are put later come after them."""
        self._effects.extend(self.batch.drain(context))

    def take(self, context: Context) -> tuple[Effect, ...]:
        """Return all effects of the step, and empty the outbox."""
        self.flush(context)
        if self._writes:
            self._effects.append(WriteStates(writes=tuple(self._writes)))
        effects = tuple(self._effects)
        self._effects, self._writes = [], []
        return effects
