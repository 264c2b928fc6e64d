"""ApiVersions (api 18), versions 0 to 3.

Behaviour: names exactly what the table of APIs serves. A version above 3 is answered in version 0
with UNSUPPORTED_VERSION and the table (KIP-511), so that the client can ask again.
Not modelled: features (KIP-584).

v1 throttle_time, v3 flexible, client name and version.
"""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)


def handle(_request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Answers at once."""
    return _said(ErrorCode.none, context.served)


def unsupported(served: Mapping[int, range]) -> ApiVersionsResponse:
    """What a client is told that asked in a version from the future."""
    return _said(ErrorCode.unsupported_version, served)


def _said(error: ErrorCode, served: Mapping[int, range]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=tuple(
            ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
            for key, versions in served.items()
        ),
    )
