"""Each topic's settings: what ``/config/topics/<topic>`` says, on top of the broker's defaults.

The defaults are the broker's properties, on top of which ``/config/brokers/<default>`` and
``/config/brokers/<id>`` may have laid others (:mod:`broker.dynamic_config`). Read from ZooKeeper
when the broker starts, when a partition comes to it, and when
:mod:`broker.server.admin.config_changes` says that something changed.
"""

import logging
from collections.abc import Collection, Mapping

from ackproof.broker.config import BrokerConfig, ConfigError, TopicConfig
from ackproof.broker.dynamic_config import DYNAMIC, Layers
from ackproof.broker.log.config import LogConfig
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.config_zk import ALL_BROKERS, ConfigZk, of_broker, of_topic
from ackproof.broker.server.zk.kafka_zk import KafkaZk

logger = logging.getLogger(__name__)


class TopicConfigs:
    """Settings by topic; the broker's defaults for a topic that was not loaded."""

    def __init__(self, config: BrokerConfig, zk: KafkaZk) -> None:
        self._zk = zk
        self._configs_zk = ConfigZk(zk)
        self._overrides: dict[str, Mapping[str, str]] = {}
        self.layers = Layers(config, {}, {})
        """Where the defaults come from."""
        self._defaults = config.topic_defaults()

    async def load_all(self) -> None:
        """Reads the defaults, and the settings of every topic there is."""
        await self.load_defaults()
        for topic in await self._zk.topics():
            await self.load(topic)

    async def load_defaults(self) -> None:
        """Reads what is laid on top of the broker's properties."""
        static = self.layers.static
        everybodys = await self._read(ALL_BROKERS, static, DYNAMIC)
        own = await self._read(of_broker(static.id), static, DYNAMIC)
        self.layers = Layers(static, everybodys, own)
        self._defaults = self.layers.effective().topic_defaults()

    async def _read(
        self, entity: str, below: BrokerConfig | TopicConfig, names: Collection[str]
    ) -> Mapping[str, str]:
        """What is set there of ``names``, nothing if it makes no sense on top of ``below``.

        Other names are passed over alone, as by Kafka (``ConfigDef.parse``): beside a
        ``cleanup.policy``, a topic's ``min.insync.replicas`` is counted on all the same.
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
        """Reads a topic's settings, none older than what the controller knew when it spoke.

        Of settings that come with their topic no note is left. A broker whose ZooKeeper server is
        50 ms behind was told to follow a partition, found no settings, and had the defaults for
        good: when it led, alone in the ISR, it answered acks=all, and ``min.insync.replicas`` was
        3. Or it finds those of a former topic of that name.
        """
        await self._zk.session.sync(znodes.topic_config(topic))
        return await self.load(topic)

    async def load(self, topic: str) -> TopicConfig:
        """Reads a topic's settings; waits as long as ZooKeeper cannot be reached."""
        overrides = await self._read(of_topic(topic), self._defaults, TopicConfig.names())
        if overrides:
            self._overrides[topic] = overrides
        else:
            self._overrides.pop(topic, None)
        return self.get(topic)

    def get(self, topic: str) -> TopicConfig:
        """A topic's settings as last read."""
        return self._defaults.overridden(self._overrides.get(topic, {}))

    def log_config(self, topic: str) -> LogConfig:
        """What the topic's logs need of them."""
        return self.get(topic).log_config()
