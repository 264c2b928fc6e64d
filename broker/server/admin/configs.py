"""Settings of topics and brokers: how they are stored, how clients read and change them, and how
changes reach a running broker."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, ConfigError, TopicConfig
from ackproof.broker.dynamic_config import (
    DYNAMIC,
    Described,
    Layers,
    Source,
    Value,
    describe_broker,
    describe_topic,
)
from ackproof.broker.log.config import LogConfig
from ackproof.broker.server.admin.topics import Refused, TopicStore
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.config_zk import ALL_BROKERS, ConfigZk, Settings, of_broker, of_topic
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import BrokerId

logger = logging.getLogger(__name__)


# --- settings of topics ---------------------------------------------------------------------------
#
# The settings of each topic: ``/config/topics/<topic>`` on top of the broker's defaults.
#
# The defaults are the broker's properties. ``/config/brokers/<default>`` and
# ``/config/brokers/<id>`` may override them (:mod:`broker.dynamic_config`). They are read from
# ZooKeeper when the broker starts, when a partition comes to it, and when
# :mod:`broker.server.admin.configs` reports a change.


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
# :mod:`broker.server.admin.configs`, here as everywhere. Not handled: loggers, client metrics and
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
