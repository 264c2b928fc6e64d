"""Being in ``/brokers/ids`` for as long as this broker lives.

The znode goes with its session. When the session has expired, the broker goes on serving as it
believes (it may be a zombie leader by then), and registers anew as soon as it has another one.
Only a registered broker may contest the office of controller: one that is not would take itself
for dead as soon as it is elected.
"""

import asyncio
import contextlib

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller.cluster import BrokerInfo, Endpoint
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired


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
        self._registered = asyncio.Event()
        # Until the first registration, which will be later than all that ZooKeeper has told of,
        # what names an earlier one is meant for a former life. It may have led, with a log whose
        # end is lost by now: obeyed, it would lead on in that very epoch.
        fence.broker_epoch = zk.session.last_zxid + 1
        zk.on_session_expired(self._registered.clear)
        zk.on_session_established(self._renewed.set)

    async def register(self) -> None:
        """Returns when the broker is registered, however many sessions that takes.

        Raises:
            BrokerIdInUse: another broker has our id.
        """
        while True:
            self._renewed.clear()
            session = self._zk.session.number
            with contextlib.suppress(SessionExpired):
                epoch = await self._zk.register_broker(self._info)
                if session == self._zk.session.number:
                    self._fence.broker_epoch = epoch
                    self._registered.set()
                    return
            await self._renewed.wait()

    async def registered(self) -> None:
        """Returns when the broker is registered in the current session."""
        await self._registered.wait()

    async def renew_forever(self) -> None:
        """Registers in each new session."""
        while True:
            await self._renewed.wait()
            await self.register()
