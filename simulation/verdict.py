"""The judgement at the end of a run, after all faults are healed.

First the cluster must settle. Then the judge asks as a client: each partition must accept a record,
each acked record must be readable, and each group must return its committed offsets. The invariants
are:

- **Cluster/does-not-settle**: within ``SETTLE_S`` of virtual time each partition must have a
  leader, a full ISR and equal logs. No topic may be half deleted, and no partition half reassigned.
- **Metadata/differs-from-zookeeper**: each broker reports the leaders to clients as ZooKeeper has
  them.
- **Metadata/unregistered-broker-shown**: no broker reports a broker whose ZooKeeper session is
  over. Each client would wait for a connection to it until a timeout.
- **TopicConfig/not-applied**: each replica, its log and its replication state machine use the
  settings of the topic.
- **Produce/request-left-waiting**: when the cluster is quiet, no producer waits for a broker.
- **Broker/request-state-left**: no broker keeps state of requests that are no longer waiting.
- **ProducerState/duplicate-batch**: no batch of an idempotent producer is in the log twice, acked
  or not.
- **ProducerState/batch-out-of-sequence**: the batches of a producer are in its order, and none is
  missing between two of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from ackproof.broker.config import TopicConfig
from ackproof.broker.controller.context import Context
from ackproof.broker.log.config import MAX_LONG, LogConfig
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.app import App
from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import CorruptBatch, parse_batches
from ackproof.broker.wire.messages.metadata import MetadataRequest, MetadataResponse
from simulation.clients.client import (
    EARLIEST,
    LATEST,
    PAUSE_S,
    SimulatedClient,
    fetch,
    find_coordinator,
    list_offset,
    offsets_of,
)
from simulation.clients.producers import ACKS_ALL, DELIVERY_S, SimulatedProducer
from simulation.model import storage
from simulation.model.history import ClientHistory, SentBatch, SentCommit
from simulation.model.log import BatchExtent, read_log
from simulation.model.observer import ClusterObserver
from simulation.model.partition import PartitionModel
from simulation.plans.actions import (
    ProduceBatches,
)
from simulation.violation import Violation

# --- convergence ----------------------------------------------------------------------------------

SETTLE_S: Final = 120.0
CHECK_INTERVAL_S: Final = 0.2

Hosted = Callable[[int, TopicPartition], server.Partition | None]
"""A function that returns the replica on a broker, if the broker is alive and has one."""


class JudgedCluster(Protocol):
    """The parts of a world that the judge looks at."""

    observer: ClusterObserver
    history: ClientHistory

    @property
    def has_controllers(self) -> bool:
        """Return whether brokers compete for the office of controller."""

    def controller_context(self) -> Context | None:
        """Return the state of the controller, or None if brokers know of no controller."""

    def hosted(self, broker: int, tp: TopicPartition) -> server.Partition | None:
        """Return the replica on a broker that is alive."""

    def app(self, broker: int) -> App | None:
        """Return the application that a broker runs or ran."""


async def wait(
    invariant: str,
    within_s: float,
    complaint: Callable[[], Awaitable[str | None]],
    pause_s: float = PAUSE_S,
) -> None:
    """Wait until ``complaint`` returns None. A missing answer counts as a complaint.

    Raises Violation of ``invariant`` with the last complaint after ``within_s``.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while (why := await _complaint(complaint)) is not None:
        if loop.time() >= end:
            raise Violation(invariant, why)
        await asyncio.sleep(pause_s)


async def _complaint(complaint: Callable[[], Awaitable[str | None]]) -> str | None:
    try:
        return await complaint()
    except Disconnected as error:
        return f"no answer: {error}"


async def settle(cluster: JudgedCluster) -> None:
    """Wait until the cluster has settled. Raises Violation if that takes too long."""

    async def why() -> str | None:
        reason = unsettled(cluster)
        return reason and f"{SETTLE_S:.0f} s after all was healed: {reason}"

    await wait("Cluster/does-not-settle", SETTLE_S, why, CHECK_INTERVAL_S)


def unsettled(cluster: JudgedCluster) -> str | None:
    """Return the first reason why the cluster has not settled, or None."""
    observer = cluster.observer
    context = cluster.controller_context()
    if context is None and cluster.has_controllers:
        return "no broker is controller"
    for name, topic in observer.topics.items():
        if topic.is_being_deleted:
            return f"topic {name} is still being deleted"
        for number, partition in topic.partitions.items():
            tp = TopicPartition(name, number)
            why = _unsettled(cluster, tp, partition, topic.replicas(number))
            if why is None and not cluster.has_controllers:
                why = _unassigned_replicas(cluster, tp, topic.replicas(number) or ())
            if why is None and context is not None:
                known = context.states.get(tp)
                if known != partition.state:
                    why = f"the controller believes in {known}"
            if why is not None:
                return f"{tp}: {why}"
    return None


def _unsettled(
    cluster: JudgedCluster,
    tp: TopicPartition,
    partition: PartitionModel,
    replicas: Iterable[int] | None,
) -> str | None:
    state = partition.state
    if replicas is None:
        return "it is still being moved"
    if state is None or state.leader not in replicas:
        return "no broker leads" if state is None else f"broker {state.leader} leads"
    if set(state.isr) != set(replicas):
        return f"the ISR is {list(state.isr)} of {list(replicas)}"
    hosted = {broker: cluster.hosted(broker, tp) for broker in replicas}
    ends = set()
    for broker, replica in hosted.items():
        if replica is None:
            return f"broker {broker} does not host it"
        role = Role.LEADER if broker == state.leader else Role.FOLLOWER
        if replica.replica.role is not role or replica.replica.leader != state.leader:
            return f"broker {broker} does not know that {state.leader} leads"
        if role is Role.LEADER and not replica.replica.serves:
            return f"broker {broker} leads, and does not serve yet"
        ends |= {replica.replica.log_end_offset, replica.replica.high_watermark}
    starts = {b: r.replica.log_start_offset for b, r in hosted.items() if r is not None}
    behind = [broker for broker, start in starts.items() if start < starts[state.leader]]
    if behind:
        return f"brokers {behind} keep deleted records below {starts[state.leader]}"
    if len(ends) != 1:
        return f"logs and high watermarks end at {sorted(ends)}"
    kept = [
        broker for broker, replica in hosted.items() if replica and _keeps_deleted_segments(replica)
    ]
    return f"brokers {kept} keep segments of deleted records" if kept else None


def _unassigned_replicas(
    cluster: JudgedCluster, tp: TopicPartition, replicas: Iterable[int]
) -> str | None:
    """Return the brokers that keep replicas no longer assigned to them.

    Without a controller, a removal waits in ZooKeeper until it is done. A controller forgets
    brokers that were down (``broker/controller/orders.py``).
    """
    unassigned = cluster.observer.registered.keys() - set(replicas)
    keeping = sorted(broker for broker in unassigned if cluster.hosted(broker, tp) is not None)
    return f"brokers {keeping} keep replicas that are not assigned to them" if keeping else None


def _keeps_deleted_segments(replica: server.Partition) -> bool:
    """Return whether the first segment of the log lies below its log start
    (``log.retention.check``)."""
    ends = replica.log.segment_base_offsets[1:]
    return bool(ends) and ends[0] <= replica.log.log_start_offset


# --- agreement of the brokers ---------------------------------------------------------------------

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


# --- answers to clients ---------------------------------------------------------------------------

ANSWER_S: Final = 30.0


# --- the judge ------------------------------------------------------------------------------------


class OffsetDeleted(Exception):
    """Retention has deleted the records before they were read."""


class ClusterJudge(SimulatedProducer):
    """A client that judges the settled cluster."""

    async def judge(self, cluster: JudgedCluster) -> None:
        """Run all checks. Raises Violation."""
        logs: dict[TopicPartition, list[BatchExtent]] = {}
        for tp, _ in tuple(cluster.observer.partitions()):
            if tp.topic != OFFSETS_TOPIC:
                await self._check_produce(tp)
        await settle(cluster)
        for tp, partition in tuple(cluster.observer.partitions()):
            logs[tp] = await self._read(tp)
            _check_logs(cluster, tp, partition)
            partition.check_damaged_left_isr()
        _check_acked_records(cluster, logs)
        _check_phantom_records(cluster, logs)
        _check_sequences(cluster, logs)
        await self._check_groups(cluster)
        await check_metadata(self, cluster.observer, self.brokers)
        await check_settings(cluster.observer, cluster.hosted)
        check_no_producer_waits(cluster.observer, cluster.hosted)
        await check_no_request_state(cluster)

    async def _check_produce(self, tp: TopicPartition) -> None:
        self.forget(tp)
        probe = ProduceBatches(
            producer=0,
            topic=tp.topic,
            partition=tp.partition,
            acks=1,
            batches=1,
            records=1,
            pause_ms=0,
        )
        await self.produce(probe)
        if self.history.sent[-1].offset is None:
            raise Violation("Cluster/does-not-serve", f"{tp} took no record in {DELIVERY_S:.0f} s")

    async def _read(self, tp: TopicPartition) -> list[BatchExtent]:
        """Read the whole partition as a consumer does."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ANSWER_S
        extents: list[BatchExtent] = []
        at = end = -1
        while at < 0 or at < end:
            if loop.time() >= deadline:
                raise Violation("Cluster/does-not-serve", f"{tp} cannot be read from {at} to {end}")
            try:
                if at < 0:
                    at, end = await self._bounds(tp)
                read = await self._read_some(tp, at) if at < end else []
            except OffsetDeleted:
                at, read = -1, []
                extents.clear()
            except Disconnected:
                read = []
            if read:
                extents += read
                at = read[-1].next
            elif at < end:
                self.forget(tp)
                await asyncio.sleep(PAUSE_S)
        return extents

    async def _bounds(self, tp: TopicPartition) -> tuple[int, int]:
        """Return the log start and the high watermark; (-1, 0) means that the question must be
        repeated."""
        leader = await self.leader(tp)
        if leader is not None:
            start = await list_offset(self, leader, tp, EARLIEST)
            end = await list_offset(self, leader, tp, LATEST)
            if start >= 0 and end >= 0:
                return start, end
        return -1, 0

    async def _read_some(self, tp: TopicPartition, at: int) -> list[BatchExtent]:
        leader = await self.leader(tp)
        answer = None if leader is None or at < 0 else await fetch(self, leader, tp, at)
        if answer is not None and answer.error_code is ErrorCode.offset_out_of_range:
            raise OffsetDeleted
        if answer is None or answer.error_code is not ErrorCode.none:
            return []
        try:
            batches = parse_batches(answer.records or b"", partial_tail=True)
        except CorruptBatch as error:
            raise Violation(
                "Replica/logs-differ", f"broker {leader} serves of {tp}: {error}"
            ) from error
        return [BatchExtent.of(batch) for batch in batches]

    # --- groups -------------------------------------------------------------------------------

    async def _check_groups(self, cluster: JudgedCluster) -> None:
        ordered: dict[tuple[str, TopicPartition], list[SentCommit]] = {}
        for commit in cluster.history.commits:
            ordered.setdefault((commit.group, commit.tp), []).append(commit)
        for (group, tp), commits in ordered.items():
            topic = cluster.observer.topics.get(tp.topic)
            live = [c for c in commits if topic is not None and c.topic_id == topic.topic_id]
            if live:
                await self._check_group(cluster, group, tp, live)

    async def _check_group(
        self, cluster: JudgedCluster, group: str, tp: TopicPartition, commits: list[SentCommit]
    ) -> None:
        stored = await self._committed(group, tp)
        acked = [c for c in commits if c.answer is ErrorCode.none]
        promised = [c for c in acked if _must_keep_commit(cluster, c)]
        if not promised:
            return
        last = promised[-1]
        possible = {c.offset for c in commits[commits.index(last) :]}
        possible |= {c.offset for c in commits if c.answer is None}
        if stored not in possible:
            raise Violation(
                "Groups/commit-lost",
                f"group {group} committed {last.offset} of {tp} at {last.sent_at:.3f} s, "
                f"and has {stored} now",
            )

    async def _committed(self, group: str, tp: TopicPartition) -> int:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ANSWER_S
        while loop.time() < deadline:
            try:
                found = await self.ask_any(find_coordinator(group))
                if found.error_code is ErrorCode.none:
                    stored = await offsets_of(self, found.node_id, group, [tp])
                    if stored is not None:
                        return stored[tp]
            except Disconnected:
                pass
            await asyncio.sleep(PAUSE_S)
        raise Violation(
            "Cluster/does-not-serve", f"group {group} does not answer in {ANSWER_S:.0f} s"
        )


def _must_keep_commit(cluster: JudgedCluster, commit: SentCommit) -> bool:
    topic = cluster.observer.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return False
    number = partition_for(commit.group, len(topic.partitions))
    home = topic.partitions[number]
    stored = cluster.observer.stored_commits[number]
    return home.checks_data and stored.is_guaranteed(commit, home)


# --- records --------------------------------------------------------------------------------------


def _check_logs(cluster: JudgedCluster, tp: TopicPartition, partition: PartitionModel) -> None:
    """Check that the logs of the ISR are equal on disk, not in the brokers' state.

    Logs that were truncated to the high watermark may differ: such a log may keep records that its
    new leader never had (KIP-101).
    """
    if not partition.checks_data:
        return
    logs = {}
    for broker in partition.isr:
        hosted = cluster.hosted(broker, tp)
        log = read_log(hosted.log) if hosted is not None else None
        if hosted is None or log is None:
            raise Violation(
                "Cluster/does-not-serve", f"{tp}: the log of broker {broker} cannot be read"
            )
        storage.check_producers(f"{tp}, broker {broker}", hosted.log, log)
        logs[broker] = log
    first, *others = logs
    for other in others:
        if not logs[first].agrees_with(logs[other]):
            raise Violation(
                "Replica/logs-differ", f"{tp}: the logs of brokers {first} and {other} differ"
            )


def _check_acked_records(
    cluster: JudgedCluster, logs: dict[TopicPartition, list[BatchExtent]]
) -> None:
    for sent in cluster.history.sent:
        partition = _partition_of(cluster, sent)
        if partition is None or sent.offset is None or not _must_keep_record(partition, sent):
            continue
        found = [extent for extent in logs[sent.tp] if extent.crc == sent.crc]
        if not any(extent.base == sent.offset for extent in found):
            where = f"it is at {found[0].base}" if found else "it is gone"
            raise Violation(
                "Produce/acknowledged-record-lost",
                f"{sent.tp}: acked with acks={sent.acks} at {sent.offset}, sent at "
                f"{sent.sent_at:.3f} s: {where}",
            )


def _partition_of(cluster: JudgedCluster, sent: SentBatch) -> PartitionModel | None:
    topic = cluster.observer.topics.get(sent.tp.topic)
    if topic is None or topic.is_being_deleted or topic.topic_id != sent.topic_id:
        return None
    return topic.partitions.get(sent.tp.partition)


def _must_keep_record(partition: PartitionModel, sent: SentBatch) -> bool:
    assert sent.offset is not None
    if not partition.checks_data or sent.offset < partition.deleted_below:
        return False
    if sent.acks == ACKS_ALL:
        in_time = sent.crc not in partition.acked_by_deposed
        return in_time and partition.is_guaranteed(sent.offset, sent.sent_at)
    kept = partition.only_leader.get(sent.offset)
    return kept is not None and kept.crc == sent.crc


def _check_sequences(cluster: JudgedCluster, logs: dict[TopicPartition, list[BatchExtent]]) -> None:
    """Check the sequence of each producer's batches.

    A partition is skipped if records were lost with permission or deleted, because the state of
    their producers goes with them. It is also skipped if some records were sent to a former topic
    of that name, which has the rest.
    """
    sent = {each.crc: each for each in cluster.history.sent}
    for tp, log in logs.items():
        partition = cluster.observer.find(tp)
        if partition is None or not partition.checks_data:
            continue
        topic_id = cluster.observer.topics[tp.topic].topic_id
        meant = all(sent[e.crc].topic_id == topic_id for e in log if e.crc in sent)
        if meant and not partition.ended_guarantees and not partition.deleted_below:
            check_sequence(tp, log, sent)


def _check_phantom_records(
    cluster: JudgedCluster, logs: dict[TopicPartition, list[BatchExtent]]
) -> None:
    known: dict[TopicPartition, set[int]] = {}
    for sent in cluster.history.sent:
        known.setdefault(sent.tp, set()).add(sent.crc)
    for tp, extents in logs.items():
        for extent in extents:
            if tp.topic != OFFSETS_TOPIC and extent.crc not in known.get(tp, ()):
                raise Violation("Produce/phantom-record", f"{tp}: no producer sent {extent}")


def check_sequence(
    tp: TopicPartition, log: Sequence[BatchExtent], sent: Mapping[int, SentBatch]
) -> None:
    """Check the order of idempotent batches in a log. Raises Violation.

    ``sent`` has the batches by their CRC. The batches that a producer lost with its id, and those
    that retention deleted, are missing at an end and not in between.
    """
    found: dict[int, BatchExtent] = {}
    next_sequence: dict[int, int] = {}
    for extent in log:
        batch = sent.get(extent.crc)
        if batch is None or not batch.idempotent:
            continue
        if extent.crc in found:
            first = found[extent.crc]
            raise Violation(
                "ProducerState/duplicate-batch", f"{tp}: {first} is there again: {extent}"
            )
        found[extent.crc] = extent
        expected = next_sequence.get(batch.producer, batch.sequence)
        if batch.sequence != expected:
            raise Violation(
                "ProducerState/batch-out-of-sequence",
                f"{tp}: producer {batch.producer} has {batch.sequence} at {extent.base}, "
                f"and {expected} is next",
            )
        next_sequence[batch.producer] = batch.sequence + batch.count
