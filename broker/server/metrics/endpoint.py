"""``metrics.listener``: the metrics in Prometheus' text format, at ``/metrics``.

Served by the broker's own event loop. Only the look at the state happens there; making text of it
is done in a thread, so that a scrape of thousands of partitions keeps no client waiting. Anyone
who can reach the address may read: give it one that only the monitoring reaches.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from aiohttp import hdrs, web
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder

from ackproof.broker.server.metrics.meters import REGISTRY
from ackproof.broker.server.metrics.snapshot import Snapshot

logger = logging.getLogger(__name__)

PATH = "/metrics"


class MetricsEndpoint:
    """An HTTP server with one page.

    Args:
        take: looks at the broker's state, on the event loop.
    """

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take = take
        application = web.Application()
        application.router.add_get(PATH, self._serve)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)

    async def start(self, host: str, port: int) -> None:
        """Binds and listens; raises OSError if the address is taken."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port).start()
        logger.info("Metrics at http://%s:%d%s", host or "*", self.port, PATH)

    @property
    def port(self) -> int:
        """Where it listens, once started."""
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stops listening and drops every connection."""
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(",".join(request.headers.getall(hdrs.ACCEPT, [])))
        scrape = _Scrape(self._take())
        body = await asyncio.to_thread(encode, scrape)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})


class _Scrape:
    """What has been counted, and what was looked at, as one collector."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from REGISTRY.collect()
        yield from self._snapshot.collect()
