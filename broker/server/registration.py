"""Being in ``/brokers/ids`` for as long as this broker lives.

The znode goes with its session. When the session has expired, the broker goes on serving as it
believes (it may be a zombie leader by then), and registers anew as soon as it has another one.
"""

import asyncio

from broker.config import BrokerConfig
from broker.controller.cluster import BrokerInfo, Endpoint
from broker.server.control_fence import ControlFence
from broker.server.zk import KafkaZk
from broker.server.zk_session import SessionExpired


class Registration:
    """Registers, and again after each expiry."""

    def __init__(self, config: BrokerConfig, zk: KafkaZk, fence: ControlFence) -> None:
        host, port = config.advertised
        self._info = BrokerInfo(
            broker_id=config.id,
            endpoints=(Endpoint(host=host, port=port),),
            rack=config.broker_rack,
        )
        self._zk = zk
        self._fence = fence
        self._renewed = asyncio.Event()
        zk.on_session_established(self._renewed.set)

    async def register(self) -> None:
        """Returns when the broker is registered, however many sessions that takes.

        Raises:
            BrokerIdInUse: another broker has our id.
        """
        while True:
            self._renewed.clear()
            try:
                self._fence.broker_epoch = await self._zk.register_broker(self._info)
                return
            except SessionExpired:
                await self._renewed.wait()

    async def renew_forever(self) -> None:
        """Registers in each new session."""
        while True:
            await self._renewed.wait()
            await self.register()
