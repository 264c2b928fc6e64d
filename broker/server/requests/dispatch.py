"""From a request's frame to its response's frame, by way of the table of APIs."""

import inspect
from collections.abc import Awaitable
from typing import Any

from broker.server.connections import CloseConnection, Reply
from broker.server.requests import api_versions
from broker.server.requests.context import Context
from broker.server.requests.table import APIS, SERVED
from broker.wire.codec import MalformedRequest, read_request, write_response
from broker.wire.registry import UnsupportedVersion

API_VERSIONS = 18


class Dispatcher:
    """Starts requests; ``__call__`` is what :class:`~broker.server.connections.Connections` needs.

    Raises:
        CloseConnection: the bytes are no request that is served here.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, frame: bytes) -> Reply:
        try:
            header, request = read_request(frame, SERVED)
        except UnsupportedVersion as error:
            return _unsupported(error)
        except MalformedRequest as error:
            raise CloseConnection(str(error)) from error
        response = APIS[request.__api_key__].handle(request, self._context)
        if inspect.isawaitable(response):
            return _later(header.correlation_id, response)
        return None if response is None else write_response(header.correlation_id, response)


async def _later(correlation_id: int, response: Awaitable[Any]) -> bytes | None:
    entity = await response
    return None if entity is None else write_response(correlation_id, entity)


def _unsupported(error: UnsupportedVersion) -> bytes:
    if error.api_key != API_VERSIONS or error.correlation_id is None:
        raise CloseConnection(str(error)) from error
    return write_response(error.correlation_id, api_versions.unsupported(SERVED.items()))
