"""Which entity speaks for an API key and version.

Entities are kio's generated ones; the controller's calls, which kio lacks, come from
:mod:`broker.wire.interbroker`. What a broker *serves* is a narrower matter and its own: see
``served`` of :func:`broker.wire.codec.read_request`.
"""

from functools import cache

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.static.constants import EntityType
from kio.static.protocol import RequestPayload, ResponsePayload

from broker.wire import interbroker


class UnsupportedVersion(Exception):
    """Nobody here speaks this version of this API.

    Attributes:
        api_key: the API asked for.
        version: the version asked for.
        correlation_id: of the request, once one was read: ApiVersions is answered nevertheless
            (KIP-511: in version 0, with error UNSUPPORTED_VERSION). None on look-ups.
    """

    def __init__(self, api_key: int, version: int, correlation_id: int | None = None) -> None:
        super().__init__(f"version {version} of API key {api_key} is not supported")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


@cache
def request_type(api_key: int, version: int) -> type[RequestPayload]:
    """The request entity of an API; raises UnsupportedVersion."""
    own: type[RequestPayload] | None = _INTERBROKER.get((EntityType.request, api_key, version))
    try:
        return own or load_request_schema(api_key, version)
    except KioIndexError as error:
        raise UnsupportedVersion(api_key, version) from error


@cache
def response_type(api_key: int, version: int) -> type[ResponsePayload]:
    """The response entity of an API; raises UnsupportedVersion."""
    own: type[ResponsePayload] | None = _INTERBROKER.get((EntityType.response, api_key, version))
    try:
        return own or load_response_schema(api_key, version)
    except KioIndexError as error:
        raise UnsupportedVersion(api_key, version) from error


_INTERBROKER = {
    (entity.__type__, entity.__api_key__, entity.__version__): entity
    for entity in vars(interbroker).values()
    if getattr(entity, "__type__", None) in (EntityType.request, EntityType.response)
}
