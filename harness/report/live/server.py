"""The pages of runs that go on, and the process that serves them beside ``ackproof run``.

The process gets its listening sockets from ``ackproof run``, which has opened them before it
entered the run's namespaces. It is sent SIGTERM when the run ends, however it ends. It then shows
the end to the open pages, gives them a moment to fetch the report, and ends.

All pages are served under chosen names alone (:func:`guard`), those of finished runs, too
(:mod:`harness.report.server`).
"""

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import accumulate
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ackproof.harness.report.axis.sends import BOUNDS_S, CellSends
from ackproof.harness.report.live import document
from ackproof.harness.report.live.source import RunSource, RunState

# --- pages for few readers ------------------------------------------------------------------------

ADDRESS = "127.0.0.1"
_OWN_NAMES = (ADDRESS, "localhost")


def guard(names: Collection[str] = ()) -> Middleware:
    """Return the middleware that refuses requests under other names than this machine's own and
    ``names``, so that no page of another site can read results through a name of its own for this
    address."""
    served = {*_OWN_NAMES, *(name.lower() for name in names)}

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            named = urlsplit(f"//{request.host}").hostname
        except ValueError:  # the host is not a name: "["
            named = None
        if named not in served:
            raise web.HTTPForbidden(
                text="not served under this name; ackproof serve --host adds one\n"
            )
        return await handler(request)

    return guarded


# --- the pages of runs ----------------------------------------------------------------------------

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'",
}
_EVERY_S = 1.0
_SHARE = 10
"""The time between two reads is at least so many times as long as a read takes, so that a long
history costs at most a tenth of a processor."""
_LINGERS_S = 3.0
"""The seconds in which open pages may fetch the report after the end of a run."""
_LOOK_S = 0.1

log = logging.getLogger(__name__)


class Feed:
    """The events of one run for all of its pages. The history is read once for all, and only while
    a page is open.

    Args:
        directory: The results.
        source: Their reader.
        goes_on: Returns whether the run goes on.
    """

    def __init__(self, directory: Path, source: RunSource, goes_on: Callable[[], bool]) -> None:
        self._directory = directory
        self._source = source
        self._goes_on = goes_on
        self._lock = asyncio.Lock()
        self._number = 0
        self._event = ""
        self._ended = False
        self._due = 0.0
        self._over = asyncio.Event()
        self.pages = 0

    def end(self) -> None:
        """Read once more at once: the run has ended."""
        self._over.set()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Send the events to a page until the run has ended or the page is closed."""
        headers = {**HEADERS, hdrs.CONTENT_TYPE: "text/event-stream; charset=utf-8"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        number, ended = 0, False
        self.pages += 1
        try:
            while not ended:
                number, event, ended = await self._after(number)
                await response.write(event.encode())
        except ConnectionError:
            log.debug("a page was closed")
        finally:
            self.pages -= 1
        return response

    async def _after(self, number: int) -> tuple[int, str, bool]:
        """Return an event behind that of this number, with its own number, and whether it is the
        last."""
        async with self._lock:
            if self._number <= number and not self._ended:
                await self._wait()
                self._event, self._ended = await asyncio.to_thread(self._read)
                self._number += 1
            return self._number, self._event, self._ended

    async def _wait(self) -> None:
        left_s = self._due - time.monotonic()
        if left_s > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), left_s)

    def _read(self) -> tuple[str, bool]:
        began = time.monotonic()
        goes_on = self._goes_on()  # before the look at the report, which is written before the end
        ending = document.ending_of(self._directory, goes_on=goes_on)
        event = document.event(self._directory, self._source.read(), ending)
        now = time.monotonic()
        self._due = now + max(_EVERY_S, _SHARE * (now - began))
        return event, ending is not None


async def page(directory: Path) -> web.Response:
    """Return the live page of the run with these results."""
    text = await asyncio.to_thread(document.page, directory)
    return web.Response(text=text, content_type="text/html", headers=HEADERS)


# --- the process beside a run -----------------------------------------------------------------


async def serve(
    directory: Path, watched: socket.socket | None, scraped: socket.socket | None
) -> None:
    """Serve the live page on one socket and the metrics on the other until SIGTERM."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    source = RunSource(directory)
    feed = Feed(directory, source, lambda: not over.is_set())
    report = _Report(directory)
    async with AsyncExitStack() as until_the_end:
        if watched is not None:
            app = web.Application(middlewares=[guard()])
            app.router.add_get("/", lambda _: page(directory))
            app.router.add_get(f"/{document.EVENTS}", feed.stream)
            app.router.add_get(f"/{document.REPORT}", report.get)
            await until_the_end.enter_async_context(_on(watched, app))
        async with AsyncExitStack() as until_sigterm:
            if scraped is not None:
                app = web.Application()
                app.router.add_get("/metrics", _Scraped(source).get)
                await until_sigterm.enter_async_context(_on(scraped, app))
            await over.wait()
        feed.end()
        await _linger(feed, report)


async def _linger(feed: Feed, report: "_Report") -> None:
    """Wait until the open pages have the last event and the report, but not for long."""
    due, pages = time.monotonic() + _LINGERS_S, feed.pages
    while time.monotonic() < due and (feed.pages or report.is_awaited_by(pages)):
        await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def _on(listening: socket.socket, app: web.Application) -> AsyncIterator[None]:
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_LOOK_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await runner.cleanup()


class _Report:
    """The report, for the pages that are open when it is written."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / document.REPORT
        self._sent = 0

    def is_awaited_by(self, pages: int) -> bool:
        """Return whether it is there and was sent to fewer than so many pages."""
        return self._sent < pages and self._path.is_file()

    async def get(self, _request: web.Request) -> web.Response:
        try:
            body = await asyncio.to_thread(self._path.read_bytes)
        except OSError:
            raise web.HTTPNotFound(text="there is no report yet\n") from None
        self._sent += 1
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=HEADERS)


class _Scraped:
    """The metrics of a run, in the format that the scraper asks for."""

    def __init__(self, source: RunSource) -> None:
        self._source = source

    async def get(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(",".join(request.headers.getall(hdrs.ACCEPT, [])))
        run = await asyncio.to_thread(self._source.read)
        return web.Response(body=encode(Scrape(run)), headers={hdrs.CONTENT_TYPE: content_type})


# --- metrics --------------------------------------------------------------------------------------
#
# ``prometheus_client`` writes them in Prometheus' text format, as the bundled broker's: it is a
# dependency already, has none of its own, and knows the rules of escaping and of OpenMetrics. What
# was not observed has no sample.

_COUNTS: tuple[tuple[str, str, Callable[[CellSends], int]], ...] = (
    ("ackproof_sends", "Records that producers sent.", lambda cell: cell.sent),
    ("ackproof_acks", "Records that were acknowledged.", lambda cell: cell.acked),
    ("ackproof_failures", "Records whose send failed.", lambda cell: cell.failed),
    (
        "ackproof_unknown_outcomes",
        "Records that may or may not be in the log.",
        lambda cell: cell.unknown,
    ),
)


class Scrape(Collector):
    """The metrics of a run at a moment, for an encoder of ``prometheus_client``."""

    def __init__(self, run: RunState | None) -> None:
        self._run = run

    def collect(self) -> Iterator[Metric]:
        return metrics(self._run)


def metrics(run: RunState | None) -> Iterator[Metric]:
    """Yield the metrics of a run. Before it has begun there are none."""
    if run is None:
        return
    yield InfoMetricFamily(
        "ackproof_run",
        "The run that goes on.",
        value={
            "campaign": run.campaign,
            "system": run.system,
            "seed": str(run.seed),
            "run": str(run.number),
        },
    )
    step = GaugeMetricFamily("ackproof_run_step", "1 for the step of the run.", labels=["step"])
    step.add_metric([run.step], 1)
    yield step
    yield from _sends(run)
    yield _open_faults(run)
    found = None if run.findings is None else len(run.findings)
    yield CounterMetricFamily("ackproof_findings", "Findings of the run so far.", value=found)
    yield from _partitions(run)
    yield GaugeMetricFamily(
        "ackproof_unreadable_history_files",
        "History files that cannot be read; their rows are not counted.",
        value=len(run.unreadable),
    )


def _sends(run: RunState) -> Iterator[Metric]:
    for name, what, value_of in _COUNTS:
        family = CounterMetricFamily(name, what, labels=["cell"])
        for cell, sends in run.cells.items():
            family.add_metric([cell], value_of(sends))
        yield family
    latency = HistogramMetricFamily(
        "ackproof_ack_latency_seconds",
        "Time from when a record was due until its acknowledgement.",
        labels=["cell"],
    )
    for cell, sends in run.cells.items():
        totals = accumulate(sends.latencies.tolist())
        buckets = list(zip([*map(str, BOUNDS_S), "+Inf"], totals, strict=True))
        latency.add_metric([cell], buckets, sum_value=sends.latency_sum_s)
    yield latency


def _open_faults(run: RunState) -> Metric:
    family = GaugeMetricFamily(
        "ackproof_fault_open",
        "1 for each fault that is not proven healed.",
        labels=["fault", "number", "target"],
    )
    for fault in run.open_faults:
        family.add_metric([fault.name, str(fault.number), fault.target], 1)
    return family


def _partitions(run: RunState) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    isr = GaugeMetricFamily(
        "ackproof_partition_isr_size", "In-sync replicas as last observed.", labels=labels
    )
    leader = GaugeMetricFamily(
        "ackproof_partition_leader",
        "The broker that leads, as last observed; -1 for none.",
        labels=labels,
    )
    for one in run.partitions:
        place = [one.topic, str(one.partition)]
        isr.add_metric(place, len(one.isr))
        if one.leader is not None:
            leader.add_metric(place, one.leader)
    yield from (isr, leader)
