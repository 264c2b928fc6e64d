"""DescribeConfigs (api 32), versions 1 and 2.

Behaviour: the settings of a topic, or the properties of this broker, with their sources; what is
laid on top of a broker's properties may be a moment behind ZooKeeper.
Not modelled: types and documentation (v3), loggers. Nothing here is sensitive.
"""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.dynamic_config import Described, text
from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


async def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Answers when ZooKeeper has answered."""
    results = await asyncio.gather(
        *(_describe(resource, request, context) for resource in request.resources)
    )
    return DescribeConfigsResponse(results=tuple(results))


async def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: Context,
) -> DescribeConfigsResult:
    refused = Refused(ErrorCode.none, "")
    found: list[Described] = []
    try:
        found = await context.configs.describe(resource.resource_type, resource.resource_name)
    except Refused as error:
        refused = error
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=refused.error,
        error_message=str(refused) or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _setting(setting, with_synonyms=request.include_synonyms)
            for setting in found
            if not keys or setting.name in keys
        ),
    )


def _setting(setting: Described, *, with_synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=text(setting.value),
        read_only=setting.read_only,
        config_source=int(setting.source),
        is_sensitive=False,
        synonyms=tuple(
            DescribeConfigsSynonym(name=name, value=text(value), source=int(source))
            for name, value, source in (setting.synonyms if with_synonyms else ())
        ),
    )
