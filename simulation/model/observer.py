"""The observer of one world: topics and brokers by ZooKeeper, replicas by their steps.

A broken invariant ends the run through ``fail``, because an exception inside a broker would be
handled by the broker.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, TopicConfig
from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.invariants import BrokenInvariant
from ackproof.broker.replication.events import (
    Append,
    Effect,
    Event,
    LeaderAndIsr,
    LeaderLostRecords,
    LogStartMoved,
    Stopped,
    Truncate,
    TruncateFully,
)
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.server.zk import znodes
from ackproof.broker.types import NO_EPOCH, NO_LEADER, ControllerEpoch, TopicPartition
from ackproof.broker.wire.messages.metadata import MetadataResponse
from simulation.machines.disk import SimulatedDisk
from simulation.machines.node import BEGINNING_WALL_MS
from simulation.model import storage
from simulation.model.controller import ControllersModel
from simulation.model.groups import GroupsModel, StoredCommits
from simulation.model.log import ModelLog, read_log
from simulation.model.partition import (
    PartitionModel,
    TopicModel,
    check_after_step,
    check_before_step,
)
from simulation.model.replica import Lag
from simulation.plans.coverage import Coverage
from simulation.violation import Violation

# --- metadata -------------------------------------------------------------------------------------
#
# The leaders in metadata answers, and the settings that each broker uses.
#
# - **Metadata/missing-leader-not-reported**: a partition without a leader is reported with
#   LEADER_NOT_AVAILABLE, so that clients ask again.
# - **Metadata/leader-never-led**: a broker that is reported as leader in an epoch leads or led in
#   it. With another epoch, clients would take the right answer, a moment later, for an older one
#   (KIP-320).

BROKERS: Final = "/config/brokers/"
ALL: Final = "<default>"

LeaderTerm = tuple[TopicPartition, int, int]
"""A partition, its leader and the epoch."""


class BrokerSettings:
    """The settings that brokers use where a topic has none: their properties, and the dynamic
    settings in ZooKeeper (KIP-226)."""

    def __init__(self) -> None:
        self.properties: dict[int, BrokerConfig] = {}
        self.dynamic: dict[str, Mapping[str, str]] = {}
        """The dynamic settings by broker id, or by :data:`ALL`."""

    def written(self, path: str, data: bytes | None) -> None:
        """Note a write to a node of ZooKeeper."""
        if path.startswith(BROKERS):
            self.dynamic[path.removeprefix(BROKERS)] = json.loads(data)["config"] if data else {}

    def defaults(self, broker: int) -> TopicConfig:
        """Return the settings of a broker; its own take precedence over those of all."""
        dynamic = {**self.dynamic.get(ALL, {}), **self.dynamic.get(str(broker), {})}
        return self.properties[broker].overridden(dynamic).topic_defaults()


def check_reported_leaders(answer: MetadataResponse, ever_led: Container[LeaderTerm]) -> None:
    """Judge the leaders in an answer to Metadata. Raises Violation.

    ``ever_led`` has all leaders and epochs that were ever in ZooKeeper.
    """
    for topic in answer.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name or "", part.partition_index)
            has_none = part.leader_id == NO_LEADER
            if has_none != (part.error_code is ErrorCode.leader_not_available):
                what = f"the error is {part.error_code.name} and the leader {part.leader_id}"
                raise Violation("Metadata/missing-leader-not-reported", f"{tp}: {what}")
            led = (tp, part.leader_id, part.leader_epoch)
            if not has_none and part.leader_epoch != NO_EPOCH and led not in ever_led:
                what = f"{part.leader_id} is said to lead in epoch {part.leader_epoch}"
                raise Violation("Metadata/leader-never-led", f"{tp}: {what}, and never did")


# --- cluster --------------------------------------------------------------------------------------

NO_ROLE = (Role.OFFLINE, -1)
UNREAD = (None, 0)


class ClusterObserver:
    """The state of one world, as observed.

    Args:
        now: A function that returns the virtual time in seconds.
        fail: A function that ends the run with a violation.
        checks_data: Whether the brokers' configuration guarantees anything about records.
        unclean: Whether it allows elections outside the ISR.
        lag_max: How far behind it lets members of the ISR be.
    """

    def __init__(
        self,
        now: Callable[[], float],
        fail: Callable[[BaseException], None],
        *,
        checks_data: bool,
        unclean: bool,
        lag_max: Lag = Lag(),  # noqa: B008
    ) -> None:
        self.coverage: Coverage = Coverage()
        self.notes: list[tuple[float, str]] = []
        """The events of the run, for its narrative."""
        self.topics: dict[str, TopicModel] = {}
        self.configs: dict[str, dict[str, str]] = {}
        """The settings of each topic, as last written."""
        self.settings = BrokerSettings()
        self.ever_led: set[LeaderTerm] = set()
        """Every leader and epoch, including those of deleted topics."""
        self.stored_commits: defaultdict[int, StoredCommits] = defaultdict(StoredCommits)
        """The stored commits by partition of ``__consumer_offsets``."""
        self.controller: int | None = None
        self.controller_epoch = ControllerEpoch(0)
        self.registered: dict[int, int] = {}
        """The transaction of each broker's last registration, which is its epoch."""
        self.unclean: set[str] = set()  # topics that allow elections outside the ISR
        self.flushes = storage.FlushTracker()
        self.controllers = ControllersModel()
        self.groups = GroupsModel()
        self._now = now
        self.fail = fail
        self._checks_data = checks_data
        self._unclean_everywhere = unclean
        self._lag_max = lag_max
        self._hosted: dict[tuple[int, TopicPartition], Partition] = {}
        self._unobserved: WeakKeyDictionary[Partition, tuple[ModelLog | None, int]] = (
            WeakKeyDictionary()
        )
        """The log and high watermark of replicas that were hosted before the model knew their
        topic. Without a controller, a broker may host a partition before the topic has an id."""
        self._stopped: WeakSet[Partition] = WeakSet()
        """Replicas that no broker hosts any more. Events that they still process, such as the
        outcome of an ISR change, do not concern hosted replicas."""
        self._roles: WeakKeyDictionary[Partition, tuple[Role, int]] = WeakKeyDictionary()
        """The role and leader epoch of each replica after its last step."""

    def note(self, what: str) -> None:
        """Add a line to the narrative."""
        self.notes.append((self._now(), what))

    @contextlib.contextmanager
    def violations_end_run(self) -> Iterator[None]:
        """Let a violation inside this context end the run."""
        try:
            yield
        except Violation as violation:
            self.fail(violation)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionModel]]:
        """Yield all partitions that are not being deleted."""
        for name, topic in self.topics.items():
            if not topic.is_being_deleted:
                for number, partition in topic.partitions.items():
                    yield TopicPartition(name, number), partition

    def hosted(self, broker: int, tp: TopicPartition) -> Partition | None:
        """Return the replica that was last hosted there. Each process of the broker has a new
        one."""
        return self._hosted.get((broker, tp))

    def find(self, tp: TopicPartition) -> PartitionModel | None:
        """Return a partition, or None if it does not exist or is being deleted."""
        topic = self.topics.get(tp.topic)
        return (
            None if topic is None or topic.is_being_deleted else topic.partitions.get(tp.partition)
        )

    # --- ZooKeeper --------------------------------------------------------------------------

    def znode_changed(self, path: str, data: bytes | None, version: int, zxid: int) -> None:
        """Process a node that transaction ``zxid`` wrote. ``data`` is None if the node was
        deleted."""
        match path.split("/")[1:]:
            case ["brokers", "topics", topic]:
                with self.violations_end_run():
                    self._topic_changed(topic, data)
            case ["brokers", "topics", topic, "partitions", number, "state"] if data is not None:
                with self.violations_end_run():
                    self._state_changed(TopicPartition(topic, int(number)), data, version)
            case ["brokers", "ids", broker]:
                self._broker_changed(int(broker), zxid, came=data is not None)
            case ["controller"]:
                self.controller = None if data is None else int(znodes.decode_controller(data))
                self.note(
                    "no broker is the controller"
                    if self.controller is None
                    else f"broker {self.controller} becomes the controller"
                )
            case ["controller_epoch"] if data is not None:
                with self.violations_end_run():
                    self._controller_epoch_changed(znodes.decode_controller_epoch(data))
            case ["admin", "delete_topics", topic] if data is not None:
                if topic in self.topics:
                    self.topics[topic].is_being_deleted = True
                    self.note(f"the deletion of topic {topic} is ordered")
            case ["config", "topics", topic] if data is not None:
                self._configured(topic, dict(znodes.decode_config(path, data)))

    def _configured(self, topic: str, config: dict[str, str]) -> None:
        self.configs[topic] = config
        unclean = config.get("unclean.leader.election.enable") == "true"
        (self.unclean.add if unclean else self.unclean.discard)(topic)
        if topic in self.topics:
            for partition in self.topics[topic].partitions.values():
                partition.configured(_min_isr(config))

    def _broker_changed(self, broker: int, zxid: int, *, came: bool) -> None:
        self.note(f"broker {broker} {'registered' if came else 'unregistered'}")
        if came:
            self.registered[broker] = zxid
            for _, partition in self.partitions():
                partition.registered(broker, zxid)

    def _topic_changed(self, topic: str, data: bytes | None) -> None:
        if data is None:
            former = self.topics.pop(topic, None)
            if former is not None:
                former.deleted(topic, self._hosts(topic, former))
            self.configs.pop(topic, None)
            self.unclean.discard(topic)
            return
        written = znodes.decode_topic(topic, data)
        known = self.topics.get(topic)
        if known is None or known.topic_id != written.topic_id:
            known = self.topics[topic] = TopicModel(written.topic_id, written)
        known.assigned(topic, written)
        for number in written.partitions:
            self.add_partition(known, TopicPartition(topic, number))

    def _hosts(self, name: str, topic: TopicModel) -> Iterator[tuple[int, TopicPartition]]:
        for (broker, tp), hosted in self._hosted.items():
            if tp.topic == name and hosted.log.metadata.topic_id == topic.topic_id:
                yield broker, tp

    def add_partition(self, topic: TopicModel, tp: TopicPartition) -> None:
        """Add a partition unless it is known."""
        if tp.partition not in topic.partitions:
            added = PartitionModel(str(tp), checks_data=self._checks_data, note=self.note)
            added.lag_max = self._lag_max
            if tp.topic in self.configs:
                added.configured(_min_isr(self.configs[tp.topic]))
            topic.partitions[tp.partition] = added

    def _state_changed(self, tp: TopicPartition, data: bytes, version: int) -> None:
        partition, state = self.find(tp), znodes.decode_state(tp, data, version)
        self.ever_led.add((tp, state.leader, state.leader_epoch))
        if partition is None:
            return
        before = partition.state
        elected = before is not None and state.leader_epoch != before.leader_epoch
        if elected and state.controller_epoch != self.controller_epoch:
            self._note_state(tp, state)
            raise Violation(
                "Controller/state-of-former-controller",
                f"{tp}: elected in controller epoch {state.controller_epoch}, "
                f"the current one is {self.controller_epoch}",
            )
        self.state_changed(tp, partition, state)

    def _note_state(self, tp: TopicPartition, state: PartitionState) -> None:
        led = "no broker leads" if state.leader == NO_LEADER else f"{state.leader} leads"
        self.note(f"{tp}: {led} in epoch {state.leader_epoch}, the ISR is {list(state.isr)}")

    def state_changed(
        self, tp: TopicPartition, partition: PartitionModel, state: PartitionState
    ) -> None:
        """Process the state of a partition in ZooKeeper."""
        self._note_state(tp, state)
        partition.state_written(
            state, unclean=self._unclean_everywhere or tp.topic in self.unclean, now=self._now()
        )

    def _controller_epoch_changed(self, epoch: ControllerEpoch) -> None:
        if epoch < self.controller_epoch:
            what = f"controller epoch {self.controller_epoch} became {epoch}"
            raise Violation("LeaderEpoch/went-back", what)
        self.controller_epoch = epoch

    # --- faults -----------------------------------------------------------------------------

    def lost_power(self, broker: int, *, disk_too: bool = False) -> None:
        """Note a power failure before the broker is gone. It certainly keeps what it had synced, or
        nothing if the disk is lost."""
        for tp, partition in self.partitions():
            hosted = self._hosted.get((broker, tp))
            synced = hosted.log.recovery_point if hosted is not None else 0
            with self.violations_end_run():
                partition.damaged(broker, 0 if disk_too else synced, now=self._now())
        if disk_too:
            self._hosted = {key: h for key, h in self._hosted.items() if key[0] != broker}

    def ended_abruptly(self, broker: int) -> None:
        """Note that a broker was killed, or did not end in order."""
        for _, partition in self.partitions():
            partition.ended_abruptly(broker)

    def ended_in_order(self, broker: int) -> None:
        """Note that a broker stopped as it was asked to, and has closed its logs."""
        for _, partition in self.partitions():
            partition.closed(broker)

    # --- replicas ---------------------------------------------------------------------------

    def replica_hosted(self, broker: int, hosted: Partition, disk: SimulatedDisk) -> None:
        """Judge the log that a new replica has found; raises Violation."""
        tp = hosted.tp
        self._hosted[broker, tp] = hosted
        partition, read = self._observed(hosted), read_log(hosted.log)
        if partition is None:
            self._unobserved[hosted] = read, hosted.replica.high_watermark
            return
        config = self.configs.get(tp.topic, {})
        if partition.checks_data and read is not None:
            model, now = partition.replica(broker), self._wall_ms()
            storage.excuse_retention(hosted, partition, model, read.start, config, wall_ms=now)
        partition.hosted(broker, read, hosted.replica.high_watermark)
        if partition.checks_data and read is not None:
            where = f"{tp}, broker {broker}"
            storage.check_epochs(where, hosted.log, read, deleted=partition.deleted_below)
            storage.check_producers(where, hosted.log, read)
            storage.check_producer_snapshots(where, hosted.log, disk, read)
            storage.check_timestamps(where, hosted.log, read)

    def replica_stepped(
        self,
        broker: int,
        hosted: Partition,
        event: Event,
        effects: Sequence[Effect],
        disk: SimulatedDisk,
    ) -> None:
        """Judge a step whose effects were carried out; raises Violation."""
        if hosted in self._stopped:
            return
        self._check_role(broker, hosted, event)
        partition = self._observed(hosted)
        if partition is None and hosted in self._unobserved and effects:
            self._unobserved[hosted] = UNREAD
        if type(event) is Stopped:
            self._stopped.add(hosted)
            self._hosted.pop((broker, hosted.tp), None)
            if partition is not None:
                partition.removed(broker)
        elif partition is not None:
            if hosted in self._unobserved:
                partition.hosted(broker, *self._unobserved.pop(hosted))
            self._judge(broker, hosted, partition, event, effects)
            if effects:
                self._check_log(broker, hosted, partition, effects, disk)

    def _judge(
        self,
        broker: int,
        hosted: Partition,
        partition: PartitionModel,
        event: Event,
        effects: Sequence[Effect],
    ) -> None:
        self._note_effects(broker, hosted, effects)
        if type(event) is LogStartMoved:
            self._retired(broker, hosted, partition, event)
        if hosted.tp.topic == OFFSETS_TOPIC:
            self._commits_appended(hosted.tp.partition, effects)
        replica = hosted.replica
        if partition.replica(broker).readable:
            check_before_step(broker, replica, partition, event, effects)
            partition.stepped(broker, replica, event, tuple(effects))
            check_after_step(broker, replica, partition)

    def replica_failed(self, broker: int, hosted: Partition) -> None:
        """Note that not all effects of a step were carried out."""
        partition = self._observed(hosted)
        if partition is not None:
            partition.failed(broker)

    def replica_deleted(self, broker: int, tp: TopicPartition) -> None:
        """Judge the deletion of a replica that was not hosted by this process. Raises Violation."""
        partition = self.find(tp)
        self._hosted.pop((broker, tp), None)
        if partition is not None:
            partition.removed(broker)

    def _check_role(self, broker: int, hosted: Partition, event: Event) -> None:
        replica, tp = hosted.replica, hosted.tp
        _, epoch = self._roles.get(hosted, NO_ROLE)
        as_printed = isinstance(event, LeaderAndIsr) and event.as_printed
        if replica.leader_epoch < epoch and not as_printed:
            what = f"{tp}: broker {broker} was in leader epoch {epoch}, and obeys an order of"
            raise Violation("LeaderEpoch/went-back", f"{what} epoch {replica.leader_epoch}")
        if hosted.waiting_producers and replica.role is not Role.LEADER:
            what = f"{tp}: {hosted.waiting_producers} producers wait at broker {broker}, which is"
            raise Violation("Produce/waiting-request-dropped", f"{what} {replica.role.value}")
        self._roles[hosted] = replica.role, replica.leader_epoch

    def role_before(self, hosted: Partition) -> Role:
        """Return the role that a replica had before its present step."""
        return self._roles.get(hosted, NO_ROLE)[0]

    def _note_effects(self, broker: int, hosted: Partition, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if type(effect) is Truncate:
                self.note(f"broker {broker} truncates {hosted.tp} to {effect.offset}")
            elif type(effect) is LeaderLostRecords:
                self.note(f"broker {broker} reports that the leader of {hosted.tp} lost records")

    def _retired(
        self, broker: int, hosted: Partition, partition: PartitionModel, event: LogStartMoved
    ) -> None:
        model, config = partition.replica(broker), self.configs.get(hosted.tp.topic, {})
        if partition.checks_data and model.readable:
            committed, now = model.high_watermark, self._wall_ms()
            storage.check_own_retention(
                hosted, model, event.offset, config, committed=committed, wall_ms=now
            )

    def _check_log(
        self,
        broker: int,
        hosted: Partition,
        partition: PartitionModel,
        effects: Sequence[Effect],
        disk: SimulatedDisk,
    ) -> None:
        """Compare a replica with its log, and after a truncation the log with what is in it."""
        log, replica, where = hosted.log, hosted.replica, f"{hosted.tp}, broker {broker}"
        assert_invariants(replica)
        assert_invariants(log)
        log_offsets = (log.log_start_offset, log.log_end_offset)
        state_offsets = (replica.log_start_offset, replica.log_end_offset)
        if log_offsets != state_offsets:
            raise Violation(
                "Replica/state-differs-from-log",
                f"{where}: it believes in {state_offsets}, the log is {log_offsets}",
            )
        if not partition.checks_data:
            return
        storage.check_replica_epochs(where, log, replica)
        truncations = [each for each in effects if isinstance(each, Truncate | TruncateFully)]
        if not truncations:
            return
        for each in truncations:
            if isinstance(each, TruncateFully):
                storage.check_restarted(where, log, each.offset)
        read = read_log(log)
        if read is not None:
            storage.check_producers(where, log, read)
            storage.check_producer_snapshots(where, log, disk, read)
            storage.check_timestamps(where, log, read)

    def _wall_ms(self) -> int:
        return BEGINNING_WALL_MS + int(self._now() * 1000)

    def _commits_appended(self, number: int, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append) and effect.leader_epoch is not None:
                self.stored_commits[number].appended(effect, self._now())

    def _observed(self, hosted: Partition) -> PartitionModel | None:
        """Return the partition, or None if the replica is of a former topic of that name, or is
        being deleted."""
        topic = self.topics.get(hosted.tp.topic)
        if (
            topic is None
            or topic.is_being_deleted
            or topic.topic_id != hosted.log.metadata.topic_id
        ):
            return None
        return topic.partitions.get(hosted.tp.partition)


class SelfChecking(Protocol):
    """A state machine or log of the broker that can assert its own invariants."""

    def check(self) -> None:
        """Raise BrokenInvariant unless the invariants hold."""


def assert_invariants(part: SelfChecking) -> None:
    """Let a part of the broker assert its own invariants. Raises Violation.

    **Broker/assertion-failed**: the invariants are in each ``check`` of the broker.
    """
    try:
        part.check()
    except BrokenInvariant as broken:
        raise Violation("Broker/assertion-failed", str(broken)) from broken


def _min_isr(config: Mapping[str, str]) -> int:
    return int(config.get("min.insync.replicas", 1))
