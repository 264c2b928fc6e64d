"""Pages for this machine alone."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

ADDRESS = "127.0.0.1"
_OWN_NAMES = (ADDRESS, "localhost")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests under another name, so that no page of another site can read results through
    a name of its own for this address."""
    try:
        named = urlsplit(f"//{request.host}").hostname
    except ValueError:  # the host is not a name: "["
        named = None
    if named not in _OWN_NAMES:
        raise web.HTTPForbidden(text="this page is served to this machine only\n")
    return await handler(request)
