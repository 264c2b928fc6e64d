"""Follows changes of settings while the broker runs: they take effect without a restart.

Notes in ``/config/changes`` name what changed. A note says no more than "read again", so notes may
be read twice, late, or out of order with the change itself. After a session's end some may have
been missed for good (they expire); then everything is read again.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from ackproof.broker.server.admin.topic_configs import TopicConfigs
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk.config_zk import ALL_BROKERS, ConfigZk, of_broker
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.types import BrokerId

logger = logging.getLogger(__name__)

Changed = Callable[[Collection[str] | None], None]
"""Called with the topics whose settings were read anew; None: all, the defaults changed."""

TOPIC = "topics/"


class ConfigChanges:
    """Reads again what changed, and says so to ``changed``."""

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
        """The task that reads notes, those that are there already as well."""
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
        named = {e.removeprefix(TOPIC) for e in entities if e.startswith(TOPIC)}
        topics = set(filter(is_legal, named))
        for topic in sorted(topics):
            logger.info("Settings of topic %s: %s", topic, await self._configs.load(topic))
        if entities & self._mine:
            await self._configs.load_defaults()
            logger.info("Dynamic properties: %s, %s", *self._configs.layers[1:])
            self._changed(None)
        elif topics:
            self._changed(topics)
