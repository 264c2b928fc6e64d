"""Results, reports and logs over HTTP: read-only, and only from one directory. By default they are
served on this machine alone.

A path is resolved, including links, before anything of it is read. A path that then lies outside of
the directory does not exist for the server. Only Ackproof's own pages are HTML. All other files are
bytes or plain text, whatever their names are, so that nothing that a server wrote into its log runs
in the reader's browser.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from aiohttp import web

from ackproof.harness import report
from ackproof.harness.directory import CAMPAIGN_FILE, MATRIX_PAGE, is_running
from ackproof.harness.report import index
from ackproof.harness.report.live import server as live
from ackproof.harness.report.live.document import EVENTS
from ackproof.harness.report.live.server import guard
from ackproof.harness.report.live.source import RunSource
from ackproof.harness.report.rendering import templates
from ackproof.history.errors import HistoryError
from ackproof.history.messages import printable

_LIVE = "live"
"""The name of the live page in a results directory. No file there has it."""
_PAGES = (report.PAGE, index.FILE)
_CHOSEN = ("a", "b")
"""The parameters of the index by which a reader chooses two results to compare."""
_SAMPLE_BYTES = 4096
_PIECE_BYTES = 256 * 1024
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file or a directory in a list. ``link`` is relative to the page. ``size`` is a text, which
    is empty for a directory."""

    name: str
    link: str
    size: str


ComparePage = Callable[[Path, Path, tuple[str, str]], str]
"""Returns the page that compares two results, with the links to their reports. It may raise
ValueError, HistoryError or OSError for results that cannot be compared."""


def application(root: Path, compare: ComparePage, hosts: Collection[str] = ()) -> web.Application:
    """Return an application that serves the files of ``root``, to requests for this machine or one
    of the ``hosts``."""
    served = _RequestHandler(root.resolve(strict=True), compare)
    app = web.Application(middlewares=[guard(hosts)])
    app.on_response_prepare.append(_with_headers)
    app.router.add_get("/{path:.*}", served.get)
    return app


async def serve(app: web.Application, address: str, port: int, tell: Callable[[str], None]) -> None:
    """Serve an application until SIGINT or SIGTERM. ``tell`` receives the URL as soon as it can be
    opened. Port 0 takes a free one. Raises OSError if the port is taken or the address is not this
    machine's."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address, port)
        await site.start()
        bound = runner.addresses[0][1]
        tell(f"http://{f'[{address}]' if ':' in address else address}:{bound}/")
        await ended.wait()
    finally:
        await runner.cleanup()


async def _with_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


class _RequestHandler:
    """The handler of requests. ``root`` is resolved."""

    def __init__(self, root: Path, compare: ComparePage) -> None:
        self._root = root
        self._compare = compare
        self._templates = templates()
        self._known = index.KnownEntries()
        self._feeds: dict[Path, live.Feed] = {}
        """The runs that are watched, by their results."""

    async def get(self, request: web.Request) -> web.StreamResponse:
        asked = request.match_info["path"]
        place, _, name = asked.rpartition("/")
        if name in (_LIVE, EVENTS) and (results := self._results(place)) is not None:
            return await (live.page(results) if name == _LIVE else self._events(request, results))
        path = self._resolved(asked)
        if path is None:
            raise web.HTTPNotFound(text="there is no such file here\n")
        if path == self._root and any(one in request.query for one in _CHOSEN):
            return await self._comparison([request.query.get(one, "") for one in _CHOSEN])
        if path.is_file():
            return await self._sent(request, path)
        if asked and not asked.endswith("/"):  # relative links in the page would be wrong
            raise web.HTTPFound(f"/{quote(asked.lstrip('/'))}/")
        page = await asyncio.to_thread(self._page, path)
        return web.Response(text=page, content_type="text/html")

    def _results(self, asked: str) -> Path | None:
        """Return the requested results directory, or None if the path names none."""
        path = self._resolved(asked)
        return path if path is not None and (path / CAMPAIGN_FILE).is_file() else None

    async def _comparison(self, chosen: Sequence[str]) -> web.Response:
        """Return the comparison of the chosen results, by their links in the index."""
        places = [os.fsdecode(unquote_to_bytes(one)).strip("/") for one in chosen]
        found = [self._results(place) if place else None for place in places]
        a, b = found
        if a is None or b is None or a == b:
            raise web.HTTPNotFound(text="choose two different results of this directory\n")
        a_report, b_report = (
            f"{quote(os.fsencode(place))}/{report.PAGE}" if (one / report.PAGE).is_file() else ""
            for place, one in zip(places, (a, b), strict=True)
        )
        try:
            page = await asyncio.to_thread(self._compare, a, b, (a_report, b_report))
        except (ValueError, HistoryError, OSError) as error:
            reason = printable(f"these results cannot be compared: {error}\n")
            raise web.HTTPUnprocessableEntity(text=reason) from None
        return web.Response(text=page, content_type="text/html")

    async def _events(self, request: web.Request, results: Path) -> web.StreamResponse:
        """Send the events of a run. One feed serves all of its pages, as long as one is open."""
        feed = self._feeds.get(results)
        if feed is None:
            source = RunSource(results)
            feed = live.Feed(results, source, lambda: is_running(results))
            self._feeds[results] = feed
        try:
            return await feed.stream(request)
        finally:
            if not feed.pages and self._feeds.get(results) is feed:
                del self._feeds[results]

    def _resolved(self, asked: str) -> Path | None:
        """Return the requested path, or None if it does not exist or is outside of the served
        directory."""
        try:
            path = (self._root / asked.lstrip("/")).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return None
        inside = path.is_relative_to(self._root)
        return path if inside and (path.is_file() or path.is_dir()) else None

    def _page(self, path: Path) -> str:
        results = (path / CAMPAIGN_FILE).is_file()
        if path == self._root and not results:
            return index.render(path, served=True, known=self._known)
        return self._templates.get_template("directory.html").render(
            name=printable(path.name),
            up=path != self._root,
            live=results and is_running(path) and _LIVE,
            report=results and (path / report.PAGE).is_file() and report.PAGE,
            logs=list(self._logs(path)),
            entries=list(self._entries(path, path)),
        )

    def _logs(self, path: Path) -> Iterator[tuple[str, Sequence[ListedFile]]]:
        """Yield the number of every run in a results directory, with its logs."""
        for directory in sorted(path.glob("runs/*/logs")):
            files = [
                file
                for one in [directory, *directory.rglob("*/")]
                for file in self._entries(one, path)
            ]
            yield directory.parent.name, [file for file in files if file.size]

    def _entries(self, directory: Path, page: Path) -> Iterator[ListedFile]:
        for path in sorted(directory.iterdir()):
            inside = self._resolved(str(path.relative_to(self._root)))
            if inside is None or path.name.startswith("."):
                continue
            name = str(path.relative_to(page))
            folder = inside.is_dir()
            link = f"./{quote(os.fsencode(name))}"
            yield ListedFile(
                name=f"{printable(name)}/" if folder else printable(name),
                link=f"{link}/" if folder else link,
                size="" if folder else _size(inside.stat().st_size),
            )

    async def _sent(self, request: web.Request, path: Path) -> web.StreamResponse:
        """Send the file with its present length. aiohttp's own response would send ``<name>.gz`` in
        its place if that exists, even if that is a link to another file."""
        try:
            with path.open("rb") as file:
                left = os.fstat(file.fileno()).st_size
                sample = file.read(_SAMPLE_BYTES)
                file.seek(0)
                response = web.StreamResponse(headers={"Content-Type": self._kind(path, sample)})
                response.content_length = left
                await response.prepare(request)
                while request.method != "HEAD" and left:
                    piece = await asyncio.to_thread(file.read, min(left, _PIECE_BYTES))
                    if not piece:  # the file became shorter
                        break
                    left -= len(piece)
                    await response.write(piece)
        except PermissionError:
            raise web.HTTPForbidden(text="this file may not be read\n") from None
        return response

    def _kind(self, path: Path, sample: bytes) -> str:
        pages = _PAGES if self._has_pages(path.parent) else ()
        if path.name in pages or self._is_matrix(path):
            return "text/html; charset=utf-8"
        return "application/octet-stream" if b"\0" in sample else "text/plain; charset=utf-8"

    def _is_matrix(self, path: Path) -> bool:
        """Return whether Ackproof wrote the page of a campaign on several systems, which is in the
        directory of results or directly below it."""
        return path.name == MATRIX_PAGE and self._root in (path.parent, path.parent.parent)

    def _has_pages(self, directory: Path) -> bool:
        """Return whether Ackproof writes pages into the directory: a results directory, or the one
        that holds them. Files at deeper levels were written by servers and clients."""
        return directory == self._root or (directory / CAMPAIGN_FILE).is_file()


def _size(count: int) -> str:
    return f"{count:,} B" if count < 10_000 else f"{count / 1024:,.0f} KiB"
