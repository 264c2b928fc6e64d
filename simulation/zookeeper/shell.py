"""The commands of an administrator in ZooKeeper, as in ``zkCli.sh``."""

import asyncio
from typing import Any, Final

from simulation.loop.loop import SimulatedLoop
from simulation.zookeeper.client import client_factory
from simulation.zookeeper.ensemble import HOST, SimulatedZooKeeper

SESSION_MS: Final = 6_000
CHECK_INTERVAL_S: Final = 0.05


class ZkShell:
    """A shell on ``host`` that opens one session for each command. Errors are ignored."""

    def __init__(self, zookeeper: SimulatedZooKeeper, host: str, loop: SimulatedLoop) -> None:
        self._zookeeper = zookeeper
        self._host = host
        self._loop = loop

    async def delete(self, path: str) -> None:
        """Run ``delete PATH``."""
        await self._do("delete_async", path)

    async def create(self, path: str, data: bytes) -> None:
        """Run ``create PATH DATA``."""
        await self._do("create_async", path, data)

    async def set(self, path: str, data: bytes) -> None:
        """Run ``set PATH DATA``."""
        await self._do("set_async", path, data)

    async def _do(self, command: str, *args: Any) -> None:
        client = client_factory(self._zookeeper, self._host, self._loop)(f"{HOST}:2181", SESSION_MS)
        client.start_async()
        while not client.connected:
            await asyncio.sleep(CHECK_INTERVAL_S)
        done: asyncio.Future[None] = self._loop.create_future()
        getattr(client, command)(*args).rawlink(lambda _: done.set_result(None))
        await done
        client.stop()
        client.close()
