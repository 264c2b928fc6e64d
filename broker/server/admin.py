"""Topics and settings: validation, and the way into ZooKeeper and back.

The coordination does the rest. :mod:`broker.server.requests` has the requests themselves.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kio.schema.errors import ErrorCode

from ackproof.broker.config import (
    DYNAMIC,
    BrokerConfig,
    ConfigError,
    Described,
    Layers,
    Source,
    TopicConfig,
    Value,
    describe_broker,
    describe_topic,
)
from ackproof.broker.controller.assignment import (
    InvalidReplicationFactor,
    assign_more,
    assign_replicas,
)
from ackproof.broker.controller.cluster import TopicAssignment
from ackproof.broker.log.config import LogConfig
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.kafka_zk import (
    ALL_BROKERS,
    ConfigZk,
    KafkaZk,
    Settings,
    TopicExists,
    UnknownTopic,
    of_broker,
    of_topic,
)
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import NO_LEADER, BrokerId

# --- topics ---------------------------------------------------------------------------------------
#
# Creation, extension and deletion of topics: validation, and the way into ZooKeeper.


def java_hash(text: str) -> int:
    """Return Java's hash of a string: over UTF-16 code units, in signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        code = (31 * code + unit) & 0xFFFF_FFFF
    return code - 2**32 if code >= 2**31 else code


class TopicStore(Protocol):
    """Topics and their assignments in ZooKeeper."""

    async def topics(self) -> set[str]:
        """Return the names of all topics."""

    async def has_topic(self, topic: str) -> bool:
        """Return whether there is such a topic."""

    async def topic_assignments(self, topics: Iterable[str]) -> dict[str, TopicAssignment]:
        """Return the assignments of those topics that exist."""

    async def partition_count(self, topic: str) -> int:
        """Return how many partitions ``topic`` has, including those that are still being created,
        or 0 if there is no such topic."""

    async def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]
    ) -> None:
        """Create a topic with these replicas by partition, the preferred one first.

        Raises:
            TopicExists: also when another broker was faster.
            SessionExpired: unknown whether the topic was created.
        """

    async def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Give ``topic`` further partitions. The existing ones do not change.

        Raises:
            UnknownTopic: no such topic.
            SessionExpired: unknown whether they were added.
        """

    async def is_being_deleted(self, topic: str) -> bool:
        """Return whether the deletion of ``topic`` was requested."""

    async def delete_topic(self, topic: str) -> None:
        """Request the deletion of ``topic``.

        Raises:
            UnknownTopic: no such topic.
            SessionExpired: unknown whether it will be deleted.
        """


Assignment = Mapping[int, tuple[BrokerId, ...]]


class Refused(Exception):
    """The rejection of a client's request, with the error code.

    Requests about several resources collect one for each, and ``none`` stands for those that were
    accepted.
    """

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A requested topic. None means the broker's default. A request has either ``assignment`` or
    the two counts."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: Assignment = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)


PARTITIONS_MAX = 10_000
"""The limit for new partitions of one topic in one request, as in Kafka since 3.3 (KRaft; with
ZooKeeper there is no limit). A small request with a large number would cost the broker much work,
because it assigns replicas to each partition."""


def _check_may_exist(name: str) -> None:
    if not is_legal(name):
        raise Refused(ErrorCode.unknown_topic_or_partition, f"There is no topic {name!r}.")


def _check_number(new_partitions: int) -> None:
    if new_partitions > PARTITIONS_MAX:
        raise Refused(
            ErrorCode.policy_violation,
            f"{new_partitions} new partitions at once, expected at most {PARTITIONS_MAX}.",
        )


class Topics:
    """Creates, extends and deletes topics on behalf of clients."""

    def __init__(self, config: BrokerConfig, store: TopicStore, metadata: MetadataCache) -> None:
        self._config = config
        self._store = store
        self._metadata = metadata

    def validate(self, spec: TopicSpec) -> Assignment:
        """Return the replicas by partition for a topic that may be created, according to the
        metadata cache. Another broker may create a topic of that name at the same time.

        Raises:
            Refused: the topic may not be created, with the reason.
        """
        self._check_name(spec.name)
        try:
            self._config.topic_defaults().overridden(spec.config)
        except ConfigError as error:
            raise Refused(ErrorCode.invalid_config, str(error)) from error
        if spec.assignment:
            return self._check_assignment(spec)
        return self._assign(spec)

    async def create(self, spec: TopicSpec) -> int:
        """Write the topic to ZooKeeper, and return how many partitions it has.

        Raises:
            Refused: it may not be created, or it is unknown whether it was.
        """
        await self._metadata.refresh([spec.name])
        assignment = self.validate(spec)
        try:
            await self._store.create_topic(spec.name, assignment, spec.config)
        except TopicExists as error:
            raise Refused(ErrorCode.topic_already_exists, str(error)) from error
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error
        return len(assignment)

    async def wait_until_led(self, name: str, partitions: int, timeout_s: float) -> None:
        """Wait until this broker has heard of a leader for every partition.

        Raises:
            Refused: the time ran out. The topic exists all the same.
        """

        def led() -> bool:
            known = self._metadata.topics.get(name, {})
            return len(known) >= partitions and all(p.leader != NO_LEADER for p in known.values())

        if not await self._metadata.wait_until(led, timeout_s, [name]):
            raise Refused(ErrorCode.request_timed_out, f"{name} has no leaders yet.")

    async def create_automatically(self, name: str) -> ErrorCode:
        """Create a topic that a client named in a request, and return the error for that client."""
        try:
            await self.create(TopicSpec(name=name))
        except Refused as refused:
            if refused.error is ErrorCode.invalid_topic_exception:
                return refused.error
        return ErrorCode.leader_not_available

    async def add_partitions(
        self,
        name: str,
        count: int,
        assignment: Sequence[tuple[BrokerId, ...]] | None,
        *,
        validate_only: bool,
    ) -> None:
        """Give a topic further partitions, so that it has ``count``.

        ``assignment`` has the replicas of the new ones. With None they are distributed as in Kafka.

        Raises:
            Refused: it may not be extended, or it is unknown whether it was.
        """
        old = await self._extensible(name, count)
        existing = {number: found.replicas for number, found in old.partitions.items()}
        added = self._more(existing, count, assignment)
        if validate_only:
            return
        try:
            await self._store.add_partitions(name, added)
        except UnknownTopic as error:
            raise Refused(ErrorCode.unknown_topic_or_partition, str(error)) from error
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error

    async def assignments(self, names: Collection[str] | None) -> dict[str, TopicAssignment]:
        """Return the replicas of these topics (None: of all) from ZooKeeper."""
        wanted = await self._store.topics() if names is None else names
        return await self._store.topic_assignments(filter(is_legal, wanted))

    async def delete(self, name: str) -> None:
        """Request the deletion of a topic.

        Raises:
            Refused: it may not be deleted, or it is unknown whether it will be.
        """
        if not self._config.delete_topic_enable:
            raise Refused(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false.")
        _check_may_exist(name)
        try:
            await self._store.delete_topic(name)
        except UnknownTopic as error:
            raise Refused(ErrorCode.unknown_topic_or_partition, str(error)) from error
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error

    async def wait_until_gone(self, name: str, timeout_s: float) -> None:
        """Wait until this broker has heard that a topic is deleted. Replicas on brokers that are
        down may remain, and the name stays taken, for as long as these brokers are down.

        Raises:
            Refused: the time ran out. The topic will be deleted all the same.
        """
        if not await self._metadata.wait_until(
            lambda: name not in self._metadata.names, timeout_s, [name]
        ):
            raise Refused(ErrorCode.request_timed_out, f"{name} is not deleted yet.")

    async def _extensible(self, name: str, count: int) -> TopicAssignment:
        _check_may_exist(name)
        found = (await self._store.topic_assignments([name])).get(name)
        if found is None or 0 not in found.partitions:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"There is no topic {name!r}.")
        if await self._store.is_being_deleted(name):
            raise Refused(ErrorCode.invalid_topic_exception, f"Topic {name!r} is being deleted.")
        if any(part.adding or part.removing for part in found.partitions.values()):
            raise Refused(ErrorCode.reassignment_in_progress, f"{name} is being reassigned.")
        if count <= len(found.partitions):
            raise Refused(
                ErrorCode.invalid_partitions,
                f"{name} has {len(found.partitions)} partitions: {count} would not be more.",
            )
        return found

    def _more(
        self, existing: Assignment, count: int, given: Sequence[tuple[BrokerId, ...]] | None
    ) -> Assignment:
        alive = {broker.id: broker.rack for broker in self._metadata.brokers.values()}
        added = count - len(existing)
        _check_number(added)
        if given is None:
            try:
                return assign_more(alive, existing, added)
            except InvalidReplicationFactor as error:
                raise Refused(ErrorCode.invalid_replication_factor, str(error)) from error
        wrong = ErrorCode.invalid_replica_assignment
        if len(given) != added:
            raise Refused(wrong, f"{added} partitions are new, {len(given)} have replicas.")
        if {len(replicas) for replicas in given} != {len(existing[0])}:
            raise Refused(wrong, f"Every partition has {len(existing[0])} replicas.")
        numbered = dict(enumerate(given, len(existing)))
        self._check_replicas(numbered)
        return numbered

    def _check_name(self, name: str) -> None:
        if not is_legal(name):
            raise Refused(
                ErrorCode.invalid_topic_exception,
                f"Topic name {name!r} is not 1 to 249 letters, digits, '.', '_' and '-'.",
            )
        # A name without partitions may be left by a creation whose broker died. A second creation
        # completes it. If the name counted as taken, __consumer_offsets could never be created
        # after such a death, and groups would have no coordinator for good.
        if name in self._metadata.topics:
            raise Refused(ErrorCode.topic_already_exists, f"Topic {name!r} already exists.")
        for other in set(self._metadata.names) - {name}:
            if other.replace(".", "_") == name.replace(".", "_"):
                raise Refused(
                    ErrorCode.invalid_topic_exception,
                    f"Topic {name!r} collides with {other!r}: '.' and '_' are the same in metrics.",
                )

    def _assign(self, spec: TopicSpec) -> Assignment:
        partitions = self._config.num_partitions if spec.partitions is None else spec.partitions
        factor = spec.replication_factor
        factor = self._config.default_replication_factor if factor is None else factor
        alive = {broker.id: broker.rack for broker in self._metadata.brokers.values()}
        if partitions < 1:
            raise Refused(ErrorCode.invalid_partitions, "A topic has at least one partition.")
        _check_number(partitions)
        if not 1 <= factor <= len(alive):
            raise Refused(
                ErrorCode.invalid_replication_factor,
                f"Replication factor {factor} with {len(alive)} brokers alive.",
            )
        # The start differs by topic. Otherwise the same broker would lead every topic of one
        # partition. Kafka draws it at random. By the name it is the same in every run, and topics
        # t-1, t-2 and t-3 start at successive brokers.
        return assign_replicas(alive, partitions, factor, start=java_hash(spec.name))

    def _check_assignment(self, spec: TopicSpec) -> Assignment:
        if spec.partitions is not None or spec.replication_factor is not None:
            raise Refused(ErrorCode.invalid_request, "Give either an assignment or the two counts.")
        wrong = ErrorCode.invalid_replica_assignment
        if sorted(spec.assignment) != list(range(len(spec.assignment))):
            raise Refused(wrong, "Partitions are not numbered from 0 without gaps.")
        if len({len(replicas) for replicas in spec.assignment.values()}) != 1:
            raise Refused(wrong, "Partitions have different numbers of replicas.")
        self._check_replicas(spec.assignment)
        return spec.assignment

    def _check_replicas(self, assignment: Assignment) -> None:
        wrong = ErrorCode.invalid_replica_assignment
        for partition, replicas in assignment.items():
            if not replicas or len(set(replicas)) != len(replicas):
                raise Refused(wrong, f"Replicas of partition {partition}: {replicas}.")
            if unknown := set(replicas) - self._metadata.brokers.keys():
                raise Refused(wrong, f"Brokers {sorted(unknown)} are not alive.")


# --- settings -------------------------------------------------------------------------------------
#
# Settings of topics and brokers: how they are stored, how clients read and change them, and how
# changes reach a running broker.


logger = logging.getLogger(__name__)


# --- settings of topics ---------------------------------------------------------------------------
#
# The settings of each topic: ``/config/topics/<topic>`` on top of the broker's defaults.
#
# The defaults are the broker's properties. ``/config/brokers/<default>`` and
# ``/config/brokers/<id>`` may override them (:mod:`broker.dynamic_config`). They are read from
# ZooKeeper when the broker starts, when a partition comes to it, and when
# :mod:`broker.server.admin` reports a change.


class TopicConfigs:
    """The settings by topic, with the broker's defaults for a topic that was not loaded."""

    def __init__(self, config: BrokerConfig, zk: KafkaZk) -> None:
        self._zk = zk
        self._configs_zk = ConfigZk(zk)
        self._overrides: dict[str, Mapping[str, str]] = {}
        self.layers = Layers(config, {}, {})
        """The source of the defaults."""
        self._defaults = config.topic_defaults()

    async def load_all(self) -> None:
        """Read the defaults, and the settings of all topics."""
        await self.load_defaults()
        for topic in await self._zk.topics():
            await self.load(topic)

    async def load_defaults(self) -> None:
        """Read the overrides of the broker's properties."""
        static = self.layers.static
        everybodys = await self._read(ALL_BROKERS, static, DYNAMIC)
        own = await self._read(of_broker(static.id), static, DYNAMIC)
        self.layers = Layers(static, everybodys, own)
        self._defaults = self.layers.effective().topic_defaults()

    async def _read(
        self, entity: str, below: BrokerConfig | TopicConfig, names: Collection[str]
    ) -> Mapping[str, str]:
        """Return the settings of ``names`` there, or none if they are invalid on top of ``below``.

        Only other names are ignored, as in Kafka (``ConfigDef.parse``): beside a
        ``cleanup.policy``, a topic's ``min.insync.replicas`` still counts.
        """
        stored = await self._configs_zk.read(entity)
        found = {name: value for name, value in stored.items() if name in names}
        for name in sorted(stored.keys() - found.keys()):
            logger.warning("/config/%s: %s cannot be set there, ignored", entity, name)
        try:
            below.overridden(found)
        except ConfigError as error:
            logger.error("/config/%s: %s; ignored", entity, error)
            return {}
        return found

    async def load_latest(self, topic: str) -> TopicConfig:
        """Read a topic's settings, which are at least as new as those that the controller knew.

        Settings that are created with their topic leave no note. A broker whose ZooKeeper server
        was 50 ms behind was told to follow a partition, found no settings, and kept the defaults
        for good. When it led, alone in the ISR, it answered acks=all, although
        ``min.insync.replicas`` was 3. It might also read the settings of a former topic of that
        name.
        """
        await self._zk.session.sync(znodes.topic_config(topic))
        return await self.load(topic)

    async def load(self, topic: str) -> TopicConfig:
        """Read a topic's settings, and wait as long as ZooKeeper cannot be reached."""
        overrides = await self._read(of_topic(topic), self._defaults, TopicConfig.names())
        if overrides:
            self._overrides[topic] = overrides
        else:
            self._overrides.pop(topic, None)
        return self.get(topic)

    def get(self, topic: str) -> TopicConfig:
        """Return a topic's settings as last read."""
        return self._defaults.overridden(self._overrides.get(topic, {}))

    def log_config(self, topic: str) -> LogConfig:
        """Return the settings of the topic's logs."""
        return self.get(topic).log_config()


# --- requests of clients --------------------------------------------------------------------------
#
# Settings as clients read and change them.
#
# Any broker changes a topic's settings, or those of all brokers. Only the broker itself changes its
# own. Changes are checked before they are written, and take effect by
# :mod:`broker.server.admin`, here as everywhere. Not handled: loggers, client metrics and
# the policy class of Kafka.


TOPIC = 2
BROKER = 4

Change = Callable[[Settings], Settings]


class ConfigAdmin:
    """Describes and alters settings. A resource is its type with its name."""

    def __init__(
        self, zk: KafkaZk, store: TopicStore, configs: TopicConfigs, metadata: MetadataCache
    ) -> None:
        self._zk = ConfigZk(zk)
        self._store = store
        self._configs = configs
        self._metadata = metadata

    @property
    def _layers(self) -> Layers:
        return self._configs.layers

    async def describe(self, kind: int, name: str) -> list[Described]:
        """Return all settings of a topic or a broker, or those that are set for all brokers (name
        ``""``).

        Raises:
            Refused: there is no such resource here.
        """
        await self._look_up(kind, name)
        entity = self._entity(kind, name)
        if kind == TOPIC:
            return describe_topic(self._layers, await self._zk.read(entity))
        if entity == ALL_BROKERS:
            return [_of_all_brokers(*item) for item in sorted(self._layers.default.items())]
        return describe_broker(self._layers)

    async def alter(self, kind: int, name: str, change: Change, *, validate_only: bool) -> None:
        """Replace the settings by the result of ``change``, which may raise Refused.

        Raises:
            Refused: there is no such resource here, a setting does not exist or cannot have its
                value, or it is unknown whether the settings were changed.
        """
        if kind == TOPIC and name == "":
            raise Refused(ErrorCode.invalid_request, "There are no settings of all topics.")
        await self._look_up(kind, name)
        entity = self._entity(kind, name)
        if kind == TOPIC and not await self._store.has_topic(name):
            raise _no_topic(name)
        check = self._check_topic if kind == TOPIC else self._check_broker

        def checked(old: Settings) -> Settings:
            new = change(old)
            check(new)
            return new

        if validate_only:
            checked(await self._zk.read(entity))
            return
        try:
            await self._zk.change(entity, checked)
        except SessionExpired as error:
            raise Refused(ErrorCode.request_timed_out, str(error)) from error

    async def _look_up(self, kind: int, name: str) -> None:
        if kind == TOPIC and is_legal(name):
            await self._metadata.refresh([name])

    def _entity(self, kind: int, name: str) -> str:
        if kind == TOPIC:
            if not is_legal(name):
                raise Refused(ErrorCode.invalid_topic_exception, f"No topic is called {name!r}.")
            if name not in self._metadata.topics:
                raise _no_topic(name)
            return of_topic(name)
        if kind != BROKER:
            raise Refused(ErrorCode.invalid_request, f"Resources of type {kind} have no settings.")
        me = self._layers.static.id
        if name == "":
            return ALL_BROKERS
        if name != str(me):
            raise Refused(ErrorCode.invalid_request, f"This is broker {me}, not {name!r}.")
        return of_broker(me)

    def _check_topic(self, settings: Settings) -> None:
        try:
            self._layers.effective().topic_defaults().overridden(settings)
        except ConfigError as error:
            raise Refused(ErrorCode.invalid_config, str(error)) from error

    def _check_broker(self, settings: Settings) -> None:
        if fixed := sorted(settings.keys() - DYNAMIC):
            raise Refused(
                ErrorCode.invalid_request, f"{', '.join(fixed)} cannot change at run time."
            )
        try:
            self._layers.static.overridden(settings)
        except ConfigError as error:
            raise Refused(ErrorCode.invalid_config, str(error)) from error


def _no_topic(name: str) -> Refused:
    return Refused(ErrorCode.unknown_topic_or_partition, f"There is no topic {name!r}.")


def _of_all_brokers(name: str, value: str) -> Described:
    source = Source.DYNAMIC_DEFAULT_BROKER
    return Described(name, value, source, False, (Value(name, value, source),))


# --- changes --------------------------------------------------------------------------------------
#
# Follows changes of settings while the broker runs: they take effect without a restart.
#
# Notes in ``/config/changes`` name what changed. A note means only "read again", so notes may be
# read twice, late, or out of order with the change itself. After a session's end, some may have
# been missed for good (they expire). Then everything is read again.


Changed = Callable[[Collection[str] | None], None]
"""Called with the topics whose settings were read again, or with None when the defaults changed."""

TOPIC_PREFIX = "topics/"


class ConfigChanges:
    """Reads changed settings again, and reports them to ``changed``."""

    def __init__(
        self, broker: BrokerId, zk: KafkaZk, configs: TopicConfigs, changed: Changed
    ) -> None:
        self._zk = ConfigZk(zk)
        self._configs = configs
        self._changed = changed
        self._mine = {ALL_BROKERS, of_broker(broker)}
        self._seen: set[str] = set()
        self._look = asyncio.Event()
        self._look.set()
        self._missed = False
        zk.on_session_established(self._look_at_everything)

    async def follow_forever(self) -> None:
        """Read notes, including existing ones, until cancelled."""
        while True:
            await self._look.wait()
            self._look.clear()
            names = await self._zk.notes(self._look.set)
            new = [name for name in names if name not in self._seen]
            self._seen = set(names)
            if self._missed:
                self._missed = False
                await self._configs.load_all()
                self._changed(None)
            else:
                await self._read(new)
            await self._zk.remove_old_notes(names)

    def _look_at_everything(self) -> None:
        self._missed = True
        self._look.set()

    async def _read(self, notes: list[str]) -> None:
        entities = {entity for name in notes if (entity := await self._zk.read_note(name))}
        named = {e.removeprefix(TOPIC_PREFIX) for e in entities if e.startswith(TOPIC_PREFIX)}
        topics = set(filter(is_legal, named))
        for topic in sorted(topics):
            logger.info("Settings of topic %s: %s", topic, await self._configs.load(topic))
        if entities & self._mine:
            await self._configs.load_defaults()
            logger.info("Dynamic properties: %s, %s", *self._configs.layers[1:])
            self._changed(None)
        elif topics:
            self._changed(topics)
