"""The state that the records of the metadata log describe: brokers, topics, partitions, settings.
Pure."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ackproof.infra.api.capabilities import MigrationState
from ackproof.infra.api.interface import ClusterView, PartitionView
from ackproof.infra.systems.kafka.kraft.records import (
    NO_LEADER_CHANGE,
    AbortTransaction,
    BrokerRegistrationChange,
    Config,
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
    ZkMigrationState,
)

_STATES = {
    0: MigrationState.NONE,
    1: MigrationState.MIGRATION,
    2: MigrationState.PRE_MIGRATION,
    3: MigrationState.POST_MIGRATION,
}
"""The states by their numbers in ``ZkMigrationStateRecord``."""
_TOPIC_CONFIG = 2
"""The value of ``ConfigResource.Type.TOPIC``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BrokerRegistration:
    """The registration of a broker."""

    epoch: int
    fenced: bool
    shutting_down: bool
    on_zookeeper: bool = False


@dataclass(slots=True)
class Image:
    """The cluster by the log up to some offset.

    Attributes:
        keeps: Returns whether a topic with this name is kept; None for all topics. Partitions and
            settings of others are dropped at once.
        migration: The state of the migration from ZooKeeper.
    """

    keeps: Callable[[str], bool] | None = None
    migration: MigrationState = MigrationState.NONE
    _brokers: dict[int, _BrokerRegistration] = field(default_factory=dict)
    _topics: dict[uuid.UUID | None, str] = field(default_factory=dict)
    _partitions: dict[tuple[str, int], PartitionView] = field(default_factory=dict)
    _configs: dict[str, dict[str, str]] = field(default_factory=dict)
    _fenced_unasked: set[int] = field(default_factory=set)

    @property
    def fenced_unasked(self) -> frozenset[int]:
        """Return the broker epochs of those that were last fenced without a controlled shutdown.

        The controllers did not hear from them, or let them go at once
        (:mod:`infra.systems.kafka.kraft.system`).
        """
        return frozenset(self._fenced_unasked)

    def view(self, controller: int | None, controller_epoch: int) -> ClusterView:
        """Return the view of this moment, given the active controller, which is not in the log.

        The brokers that are not fenced count as registered, with their broker epochs.
        """
        return ClusterView(
            brokers={n: one.epoch for n, one in self._brokers.items() if not one.fenced},
            controller=controller,
            controller_epoch=controller_epoch,
            partitions=dict(self._partitions),
        )

    @property
    def in_kraft_mode(self) -> frozenset[int]:
        """Return the ids of the brokers that have last registered as brokers of KRaft."""
        return frozenset(n for n, one in self._brokers.items() if not one.on_zookeeper)

    def config(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings."""
        return dict(self._configs.get(topic, {}))

    def apply(self, records: Iterable[Record], epoch: int) -> None:
        """Apply records that the controller of an epoch wrote."""
        for record in records:
            self._apply(record, epoch)

    def _apply(self, record: Record, epoch: int) -> None:
        match record:
            case RegisterBroker():
                self._brokers[record.broker_id] = _BrokerRegistration(
                    epoch=record.broker_epoch,
                    fenced=record.fenced,
                    shutting_down=record.in_controlled_shutdown,
                    on_zookeeper=record.is_migrating_zk_broker,
                )
            case UnregisterBroker():
                self._brokers.pop(record.broker_id, None)
            case BrokerRegistrationChange():
                self._change_broker(record)
            case Topic():
                self._topics[record.topic_id] = record.name
            case RemoveTopic():
                self._remove(self._topics.pop(record.topic_id, ""))
            case Partition():
                self._put(record, epoch)
            case PartitionChange():
                self._change(record, epoch)
            case Config():
                self._configure(record)
            case ZkMigrationState() | AbortTransaction():
                self._migrate(record)

    def _migrate(self, record: ZkMigrationState | AbortTransaction) -> None:
        if isinstance(record, ZkMigrationState):
            self.migration = _STATES[record.zk_migration_state]
        elif self.migration is MigrationState.PRE_MIGRATION:
            # A controller failed while it copied topics from ZooKeeper. There are no others.
            self._topics, self._partitions, self._configs = {}, {}, {}

    def _is_kept(self, topic: str) -> bool:
        return self.keeps is None or self.keeps(topic)

    def _change_broker(self, record: BrokerRegistrationChange) -> None:
        known = self._brokers.get(record.broker_id)
        if known is None:
            return
        fenced = known.fenced if record.fenced == 0 else record.fenced > 0
        if fenced and not known.fenced and not known.shutting_down:
            self._fenced_unasked.add(known.epoch)
        elif not fenced:
            self._fenced_unasked.discard(known.epoch)
        self._brokers[record.broker_id] = replace(
            known,
            fenced=fenced,
            shutting_down=known.shutting_down or record.in_controlled_shutdown > 0,
        )

    def _remove(self, topic: str) -> None:
        self._configs.pop(topic, None)
        self._partitions = {key: one for key, one in self._partitions.items() if key[0] != topic}

    def _put(self, record: Partition, epoch: int) -> None:
        topic = self._topics[record.topic_id]
        if not self._is_kept(topic):
            return
        self._partitions[topic, record.partition_id] = PartitionView(
            topic=topic,
            partition=record.partition_id,
            leader=record.leader,
            isr=tuple(record.isr),
            elr=tuple(record.eligible_leader_replicas or ()),
            replicas=tuple(record.replicas),
            leader_epoch=record.leader_epoch,
            controller_epoch=epoch,
            version=record.partition_epoch,
        )

    def _change(self, record: PartitionChange, epoch: int) -> None:
        key = self._topics[record.topic_id], int(record.partition_id)
        if key not in self._partitions and not self._is_kept(key[0]):
            return
        known = self._partitions[key]
        assert known.version is not None
        elr = record.eligible_leader_replicas
        elected = record.leader != NO_LEADER_CHANGE
        self._partitions[key] = replace(
            known,
            leader=record.leader if elected else known.leader,
            leader_epoch=known.leader_epoch + elected,
            isr=known.isr if record.isr is None else tuple(record.isr),
            elr=known.elr if elr is None else tuple(elr),
            replicas=known.replicas if record.replicas is None else tuple(record.replicas),
            controller_epoch=epoch,
            version=known.version + 1,
        )

    def _configure(self, record: Config) -> None:
        if record.resource_type != _TOPIC_CONFIG or not self._is_kept(record.resource_name):
            return
        settings = self._configs.setdefault(record.resource_name, {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
