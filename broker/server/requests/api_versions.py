"""ApiVersions (api 18), versions 0 to 3.

Behaviour: names exactly what the table of APIs serves. A version above 3 is answered in version 0
with UNSUPPORTED_VERSION and the table (KIP-511), so that the client can ask again.
Not modelled: features (KIP-584).

v1 throttle_time, v3 flexible, client name and version.
"""

from collections.abc import Iterable
from typing import Any

from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context


def handle(request: ApiVersionsRequest, context: Context) -> Any:
    """Answers at once."""
    answer = Answer.to(request)
    return answer(
        "ApiVersionsResponse",
        error_code=ErrorCode.none,
        api_keys=tuple(
            answer("ApiVersion", api_key=key, min_version=versions[0], max_version=versions[-1])
            for key, versions in context.served.items()
        ),
        throttle_time=NO_THROTTLE,
    )


def unsupported(served: Iterable[tuple[int, range]]) -> ApiVersionsResponse:
    """What a client is told that asked in a version from the future."""
    return ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=tuple(
            ApiVersion(
                api_key=i16(key), min_version=i16(versions[0]), max_version=i16(versions[-1])
            )
            for key, versions in served
        ),
    )
