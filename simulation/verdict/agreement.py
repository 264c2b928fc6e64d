"""The knowledge that every broker must have at the end of a run.

- **Metadata/differs-from-zookeeper**: each broker reports the leaders to clients as ZooKeeper has
  them.
- **Metadata/unregistered-broker-shown**: no broker reports a broker whose ZooKeeper session is
  over. Each client would wait for a connection to it until a timeout.
- **TopicConfig/not-applied**: each replica, its log and its replication state machine use the
  settings of the topic.
- **Produce/request-left-waiting**: when the cluster is quiet, no producer waits for a broker.
- **Broker/request-state-left**: no broker keeps state of requests that are no longer waiting.
"""

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any, Final

from ackproof.broker.config import TopicConfig
from ackproof.broker.log.config import MAX_LONG, LogConfig
from ackproof.broker.server.app import App
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.metadata import MetadataRequest, MetadataResponse
from simulation.clients.client import SimulatedClient
from simulation.model.observer import ClusterObserver
from simulation.model.partition import PartitionModel
from simulation.verdict.convergence import Hosted, JudgedCluster, wait
from simulation.violation import Violation

AGREE_S: Final = 30.0
"""The time in which every broker learns the last change, in seconds. A controller receives ISR
changes in batches."""
REQUEST_STATE_S: Final = 15.0
"""A time longer than abandoned requests may be under way, in seconds."""
TIMESTAMP_LIMITS: Final = ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms")
"""The settings without which ``message.timestamp.difference.max.ms`` applies (KIP-937)."""


async def check_metadata(
    client: SimulatedClient, observer: ClusterObserver, brokers: tuple[int, ...]
) -> None:
    """Ask all of ``brokers``, which must be alive, for metadata. Raises Violation."""
    for broker in brokers:
        why = partial(_disagreement, client, observer, broker, brokers)
        await wait("Metadata/differs-from-zookeeper", AGREE_S, why)


async def _disagreement(
    client: SimulatedClient, observer: ClusterObserver, broker: int, brokers: tuple[int, ...]
) -> str | None:
    request = MetadataRequest(version=9, topics=None, allow_auto_topic_creation=False)
    answer = await client.ask(broker, request)
    if (wrong_brokers := _wrong_brokers(broker, answer, brokers)) is not None:
        return wrong_brokers
    for each in answer.brokers:
        address = (each.host, each.port)
        known_address = observer.settings.properties[each.node_id].advertised
        if address != known_address:
            what = f"broker {broker} says that broker {each.node_id} is at {address}"
            return f"{what}, not at {known_address}"
    known = {name for name, topic in observer.topics.items() if not topic.is_being_deleted}
    unknown = {str(topic.name) for topic in answer.topics} - known
    if unknown:
        return f"broker {broker} reports unknown topics: {', '.join(sorted(unknown))}"
    parts = {
        TopicPartition(topic.name, part.partition_index): part
        for topic in answer.topics
        for part in topic.partitions
    }
    for tp, partition in observer.partitions():
        why = _difference(partition, parts.get(tp))
        if why is not None:
            return f"broker {broker} reports of {tp} {why}"
    return None


def _wrong_brokers(broker: int, answer: MetadataResponse, brokers: tuple[int, ...]) -> str | None:
    alive = sorted(int(each.node_id) for each in answer.brokers)
    if alive == sorted(brokers):
        return None
    return f"broker {broker} says that brokers {alive} are alive"


def _difference(partition: PartitionModel, answer: Any) -> str | None:
    state = partition.state
    if answer is None or state is None:
        return "nothing"
    if (answer.leader_id, answer.leader_epoch) != (state.leader, state.leader_epoch):
        return (
            f"that {answer.leader_id} leads in epoch {answer.leader_epoch}, "
            f"not {state.leader} in {state.leader_epoch}"
        )
    if set(answer.isr_nodes) != set(state.isr):
        return f"that the ISR is {list(answer.isr_nodes)}, not {list(state.isr)}"
    return None


async def check_settings(observer: ClusterObserver, hosted: Hosted) -> None:
    """Check the settings of the replicas in the ISR. Raises Violation."""

    async def why() -> str | None:
        return next(_wrong_settings(observer, hosted), None)

    await wait("TopicConfig/not-applied", AGREE_S, why)


def _wrong_settings(observer: ClusterObserver, hosted: Hosted) -> Iterator[str]:
    """Yield replicas with other settings than the topic's.

    A setting that the topic does not have is the broker's own, even if the topic had it before or a
    former topic of that name had it.
    """
    for tp, partition in observer.partitions():
        wanted = observer.configs.get(tp.topic, {})
        for broker in partition.isr:
            replica = hosted(broker, tp)
            due = observer.settings.defaults(broker).overridden(wanted)
            if replica is not None and replica.config != due:
                yield f"{tp}: broker {broker} uses {replica.config}, its settings are {wanted}"
            elif replica is not None and not _is_applied(replica):
                yield f"{tp}: broker {broker} has {wanted}, and its log or replica does not"


def _is_applied(replica: server.Partition) -> bool:
    config = replica.config
    known = replica.replica.config.min_insync_replicas
    return replica.log.config == _log_settings(config) and known == config.min_insync_replicas


def _log_settings(config: TopicConfig) -> LogConfig:
    """Return the expected log settings, each derived from its name rather than by the broker's
    ``TopicConfig.log_config``."""
    settings = {field.name: getattr(config, field.name) for field in fields(LogConfig)}
    for limit in TIMESTAMP_LIMITS:
        if settings[limit] == MAX_LONG:
            settings[limit] = config.message_timestamp_difference_max_ms
    return LogConfig(**settings)


# --- state of requests ----------------------------------------------------------------------------


def check_no_producer_waits(observer: ClusterObserver, hosted: Hosted) -> None:
    """Raise Violation if a producer waits although everything is replicated.

    The offsets topic is not checked. Coordinators still write to it, because the last member of a
    group may just have left.
    """
    for tp, partition in observer.partitions():
        if tp.topic == OFFSETS_TOPIC:
            continue
        for broker in partition.isr:
            replica = hosted(broker, tp)
            if replica is not None and replica.waiting_producers:
                what = f"{replica.waiting_producers} produce requests wait at broker {broker}"
                raise Violation(
                    "Produce/request-left-waiting", f"{tp}: {what}, and all is replicated"
                )


async def check_no_request_state(cluster: JudgedCluster) -> None:
    """Raise Violation if a broker keeps state of a request that is over.

    A broker always has requests under way. Therefore each kind of state only has to be empty at
    some moment.
    """
    for broker in sorted(cluster.observer.registered):
        app = cluster.app(broker)
        if app is None:
            continue
        for kind in app.held():

            async def why(app: App = app, broker: int = broker, kind: str = kind) -> str | None:
                held = app.held()[kind]
                return f"broker {broker} holds {held} {kind}" if held else None

            await wait("Broker/request-state-left", REQUEST_STATE_S, why)
