"""From a request's frame to its response's frame, by way of the table of APIs."""

from collections.abc import Awaitable, Mapping
from functools import partial
from time import perf_counter

from ackproof.broker.server.metrics import meters
from ackproof.broker.server.network.connections import CloseConnection, Frame, Later, Reply
from ackproof.broker.server.requests import api_versions
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.requests.table import APIS, TO_THEIR_END, Started, readable
from ackproof.broker.wire.codec import (
    MalformedRequest,
    UnsupportedVersion,
    first_fields,
    response_pieces,
    write_response,
)
from ackproof.broker.wire.message import Response

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
            started = self._start(frame)
        except UnsupportedVersion as error:
            return _unsupported(error, self._context.served)
        except MalformedRequest as error:
            meters.MALFORMED_REQUESTS.inc()
            raise CloseConnection(str(error)) from error
        answer = started.answer
        encoded = partial(self._encoded, started, began)
        if isinstance(answer, Later):
            return Later(answer.result, lambda result: encoded(answer.then(result)))
        if isinstance(answer, Awaitable):
            return Later(answer, encoded, started.header.api_key in TO_THEIR_END)
        return encoded(answer)

    def _start(self, frame: bytes | memoryview) -> Started:
        first = first_fields(frame)
        if first.version not in self._readable.get(first.api_key, ()):
            raise UnsupportedVersion(first)
        return APIS[first.api_key].start(first, frame, self._context)

    def _encoded(self, started: Started, began: float, response: Response | None) -> Frame | None:
        self._context.probe.request_answered(started.request, response)
        reply = None
        if response is not None:
            header = started.header
            reply = response_pieces(header.correlation_id, response, header.version)
        meters.request_done(started.request, perf_counter() - began)
        return reply


def _unsupported(error: UnsupportedVersion, served: Mapping[int, range]) -> bytes:
    if error.first.api_key != API_VERSIONS:
        meters.MALFORMED_REQUESTS.inc()
        raise CloseConnection(str(error)) from error
    return write_response(error.first.correlation_id, api_versions.unsupported(served), 0)
