"""Settings in ZooKeeper, and how brokers hear of their changes.

``/config/<entity>`` holds the settings of an entity: ``topics/T``, ``brokers/N``, or
``brokers/<default>`` for all brokers. A change leaves a numbered note in ``/config/changes``. Every
broker watches for notes and reads the entity again. Kafka's ``AdminZkClient`` leaves the note after
the change; here both are one transaction. Notes are removed when another is a quarter of an hour
younger, by the first broker that sees them (Kafka's ``ZkNodeChangeNotificationListener`` uses its
own clock). Not handled: settings of users, clients and addresses.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)

from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import Callback, SessionNumber
from ackproof.broker.server.zk.znodes import understood
from ackproof.broker.types import BrokerId

EXPIRATION_MS = 15 * 60 * 1000
ALL_BROKERS = "brokers/<default>"

Settings = Mapping[str, str]


def of_topic(topic: str) -> str:
    """Return the entity of a topic."""
    return f"topics/{topic}"


def of_broker(broker: BrokerId) -> str:
    """Return the entity of one broker."""
    return f"brokers/{broker}"


class ConfigZk:
    """Reads and changes settings, for one broker."""

    def __init__(self, zk: KafkaZk) -> None:
        self._session = zk.session

    async def read(self, entity: str) -> dict[str, str]:
        """Return the entity's own settings, empty when it has none, or none that can be parsed."""
        path = f"/config/{entity}"
        return _settings(path, await self._session.get(path))

    async def change(self, entity: str, changed: Callable[[Settings], Settings]) -> None:
        """Replace the settings by ``changed(settings)``, however often others are faster, and leave
        a note for the brokers.

        Raises:
            SessionExpired: unknown whether they were changed.
        """
        session = self._session.number
        while not await self._changed(entity, changed, session):
            pass  # others were faster

    async def _changed(
        self, entity: str, changed: Callable[[Settings], Settings], session: SessionNumber
    ) -> bool:
        """Write settings and note in one transaction. A session that expires between the two, or a
        client that disconnects, would leave a ``min.insync.replicas`` that no broker hears of
        before it is started again."""
        path = f"/config/{entity}"
        node = await self._session.get(path)
        data = znodes.encode_config(changed(_settings(path, node)))

        def submit(client: KazooClient) -> Any:
            transaction = client.transaction()
            if node is None:
                transaction.create(path, data)
            else:
                transaction.set_data(path, data, version=node[1].version)
            note = znodes.encode_config_change(entity)
            transaction.create(f"{znodes.CONFIG_CHANGES}/config_change_", note, sequence=True)
            return transaction.commit_async()

        written, noted = await self._session.request(submit, session)
        if isinstance(written, RolledBackError):
            raise noted
        if isinstance(written, Exception):
            if not isinstance(written, BadVersionError | NodeExistsError | NoNodeError):
                raise written
            return False
        return True

    async def notes(self, watch: Callback) -> list[str]:
        """Return the names of the notes, oldest first. ``watch`` is called when there are
        others."""
        return sorted(await self._session.children(znodes.CONFIG_CHANGES, watch))

    async def read_note(self, name: str) -> str | None:
        """Return the entity that a note names, or None when it is unknown by now."""
        path = f"{znodes.CONFIG_CHANGES}/{name}"
        node = await self._session.get(path)
        return None if node is None else understood(znodes.decode_config_change, path, node[0])

    async def remove_old_notes(self, names: list[str], keep_ms: int = EXPIRATION_MS) -> None:
        """Remove the notes that every broker has had time to read: ``keep_ms`` older than the
        youngest.

        Only ZooKeeper's clock counts. A broker whose own clock is a quarter of an hour ahead would
        remove each note as soon as it saw it. A broker whose ZooKeeper server is 50 ms behind would
        find none, and keep the former ``min.insync.replicas``.
        """
        written = {}
        for name in names:
            path = f"{znodes.CONFIG_CHANGES}/{name}"
            node = await self._session.get(path)
            if node is not None:
                written[path] = int(node[1].ctime)
        oldest_ms = max(written.values(), default=0) - keep_ms
        for path, at_ms in written.items():
            if at_ms <= oldest_ms:
                with contextlib.suppress(NoNodeError, NotEmptyError):
                    await self._session.request(partial(_delete, path))


def _settings(path: str, node: tuple[bytes, Any] | None) -> dict[str, str]:
    return (understood(znodes.decode_config, path, node[0]) if node else None) or {}


def _delete(path: str, client: KazooClient) -> Any:
    return client.delete_async(path)
