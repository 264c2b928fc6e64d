"""The other end of a connection, by kio: what our own classes are held against.

Nothing here is made of ours. The controller's calls, which kio lacks, are described in
``protocol/interbroker.py`` in the shape of its classes, so that its codecs work on them.
"""

import io
import struct
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from ackproof.broker.server.requests.dispatch import APIS
from protocol.apis import INTERBROKER
from tests.support.clients.frames import read_request

SIZE = struct.Struct(">i")
OTHERS = {
    (int(pair[0].__api_key__), int(pair[0].__version__)): pair for pair in INTERBROKER.values()
}


def request_type(api_key: int, version: int) -> Any:
    """kio's class of a request."""
    pair = OTHERS.get((api_key, version))
    return pair[0] if pair else load_request_schema(api_key, version)


def response_type(api_key: int, version: int) -> Any:
    """kio's class of a response."""
    pair = OTHERS.get((api_key, version))
    return pair[1] if pair else load_response_schema(api_key, version)


def written(*entities: Any) -> bytes:
    """One after the other."""
    with io.BytesIO() as buffer:
        for entity in entities:
            entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def framed(payload: bytes) -> bytes:
    """With its size in front."""
    return SIZE.pack(len(payload)) + payload


def write_request(entity: Any, correlation_id: int, client_id: str | None) -> bytes:
    """A whole frame."""
    header = entity.__header_schema__(
        request_api_key=entity.__api_key__,
        request_api_version=entity.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return framed(written(header, entity))


def write_response(correlation_id: int, entity: Any) -> bytes:
    """A whole frame."""
    return framed(written(entity.__header_schema__(correlation_id=correlation_id), entity))


def read_response(request: Any, payload: bytes) -> tuple[int, Any]:
    """The correlation id, and what is answered to a request of that class."""
    entity_type = response_type(request.__api_key__, request.__version__)
    header, start = entity_reader(entity_type.__header_schema__)(payload, 0)
    entity, size = entity_reader(entity_type)(payload, start)
    assert start + size == len(payload), "bytes are left over"
    return header.correlation_id, entity


def ours(request: Any) -> Any:
    """Our request that kio's comes to on the wire; one that is ours already is left as it is."""
    if hasattr(request, "VERSIONS"):
        return request
    payload = write_request(request, 0, None)[SIZE.size :]
    return read_request(APIS[request.__api_key__].request, payload)[1]
