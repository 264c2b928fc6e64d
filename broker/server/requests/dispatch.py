"""From a request's frame to its response's frame, by way of the table of APIs."""

import inspect
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any

from kio.static.protocol import RequestPayload

from broker.server.metrics import meters
from broker.server.network.connections import PEER, CloseConnection, Frame, Later, Reply
from broker.server.requests import api_versions
from broker.server.requests.client import Client
from broker.server.requests.context import Context
from broker.server.requests.table import APIS, readable
from broker.wire.codec import MalformedRequest, read_request, response_pieces, write_response
from broker.wire.registry import UnsupportedVersion

API_VERSIONS = 18


class Dispatcher:
    """Starts requests; ``__call__`` is what
    :class:`~broker.server.network.connections.Connections` needs.

    Raises:
        CloseConnection: the bytes are no request that is served here.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._readable = readable(context.served)

    def __call__(self, frame: bytes | memoryview) -> Reply:
        began = perf_counter()
        try:
            header, request = read_request(frame, self._readable)
        except UnsupportedVersion as error:
            return _unsupported(error, self._context.served)
        except MalformedRequest as error:
            meters.MALFORMED_REQUESTS.inc()
            raise CloseConnection(str(error)) from error
        api = APIS[request.__api_key__]
        if api.wants_client:
            client = Client(header.client_id or "", f"/{PEER.get()}")
            response = api.handle(request, self._context, client)
        else:
            response = api.handle(request, self._context)
        encoded = partial(_encoded, request, header.correlation_id, began)
        if isinstance(response, Later):
            return Later(response.result, lambda result: encoded(response.then(result)))
        return Later(response, encoded) if inspect.isawaitable(response) else encoded(response)


def _encoded(
    request: RequestPayload, correlation_id: int, began: float, response: Any
) -> Frame | None:
    reply = None if response is None else response_pieces(correlation_id, response)
    meters.request_done(request, perf_counter() - began)
    return reply


def _unsupported(error: UnsupportedVersion, served: Mapping[int, range]) -> bytes:
    if error.api_key != API_VERSIONS or error.correlation_id is None:
        meters.MALFORMED_REQUESTS.inc()
        raise CloseConnection(str(error)) from error
    return write_response(error.correlation_id, api_versions.unsupported(served.items()))
