"""Each topic's settings: what ``/config/topics/<topic>`` says, on top of the broker's defaults.

Read from ZooKeeper when the broker starts and when a partition comes to it. Changes to a topic
that is here already are not followed.
"""

import logging

from broker.config import BrokerConfig, ConfigError, TopicConfig
from broker.log.config import LogConfig
from broker.server.zk import KafkaZk

logger = logging.getLogger(__name__)


class TopicConfigs:
    """Settings by topic; the broker's defaults for a topic that was not loaded."""

    def __init__(self, config: BrokerConfig, zk: KafkaZk) -> None:
        self._defaults = config.topic_defaults()
        self._zk = zk
        self._configs: dict[str, TopicConfig] = {}

    async def load_all(self) -> None:
        """Reads the settings of every topic there is."""
        for topic in await self._zk.topics():
            await self.load(topic)

    async def load(self, topic: str) -> TopicConfig:
        """Reads a topic's settings; waits as long as ZooKeeper cannot be reached."""
        overrides = await self._zk.topic_config(topic)
        try:
            self._configs[topic] = self._defaults.overridden(overrides)
        except ConfigError as error:
            logger.error("/config/topics/%s: %s; using the broker's defaults", topic, error)
            self._configs.pop(topic, None)
        return self.get(topic)

    def get(self, topic: str) -> TopicConfig:
        """A topic's settings as last read."""
        return self._configs.get(topic, self._defaults)

    def log_config(self, topic: str) -> LogConfig:
        """What the topic's logs need of them."""
        return self.get(topic).log_config()
