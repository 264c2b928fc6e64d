"""Settings as clients see and change them.

Any broker changes a topic's settings, or those of all brokers; a broker's own it changes alone.
What is written is checked before, and takes effect by :mod:`broker.server.admin.config_changes`,
here as everywhere. Loggers, client metrics and the policy class of Kafka are not handled.
"""

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from ackproof.broker.config import ConfigError
from ackproof.broker.dynamic_config import (
    DYNAMIC,
    Described,
    Layers,
    Source,
    Value,
    describe_broker,
    describe_topic,
)
from ackproof.broker.server.admin.topic_configs import TopicConfigs
from ackproof.broker.server.admin.topic_store import TopicStore
from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk.config_zk import ALL_BROKERS, ConfigZk, Settings, of_broker, of_topic
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired

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
        """All settings of a topic or a broker; of all brokers (name ``""``) those that are set.

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
        """Replace the settings by what ``change`` makes of them; it may raise Refused.

        Raises:
            Refused: there is no such resource here, a setting does not exist or cannot have its
                value, or nobody knows whether it was changed.
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
