"""Producer ids: unique in the cluster, allocated from blocks of 1000 (KIP-98).

A broker takes a block by a conditional write of ``/latest_producer_id_block``, as in Kafka. If it
stays unknown whether the write happened, the block is given up: there are many ids.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from kazoo.exceptions import BadVersionError

from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import BrokerId, ProducerId

BLOCK: Final = 1000


class ProducerIds:
    """The producer ids of one broker."""

    def __init__(self, broker: BrokerId, zk: KafkaZk) -> None:
        self._broker = broker
        self._zk = zk
        self._ids: Iterator[int] = iter(())
        self._one_at_a_time = asyncio.Lock()

    async def next(self) -> ProducerId:
        """Return an unused id. Wait as long as ZooKeeper cannot be reached.

        Raises:
            MalformedNode: the content of the znode cannot be parsed.
        """
        async with self._one_at_a_time:
            while (found := next(self._ids, None)) is None:
                self._ids = iter(await self._take_block() or ())
            return ProducerId(found)

    async def _take_block(self) -> range | None:
        """Return a block of this broker's own, or None when another broker was faster or the
        outcome is unknown."""
        session = self._zk.session
        number = session.number
        node = await session.get(znodes.PRODUCER_IDS)
        if node is None:
            await session.ensure(znodes.PRODUCER_IDS)
            return None
        data, stat = node
        start = znodes.decode_producer_ids_end(data)
        block = range(start, start + BLOCK)
        taken = znodes.encode_producer_ids(self._broker, block)
        try:
            await session.set(znodes.PRODUCER_IDS, taken, stat.version, number)
        except (BadVersionError, SessionExpired):
            return None
        return block
