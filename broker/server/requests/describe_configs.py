"""DescribeConfigs (api 32), versions 1 and 2.

Behaviour: the settings of a topic, or the properties of this broker, with their sources; what is
laid on top of a broker's properties may be a moment behind ZooKeeper.
Not modelled: types and documentation (v3), loggers. Nothing here is sensitive.
"""

import asyncio
from typing import Any

from kio.schema.describe_configs.v2.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode

from broker.dynamic_config import Described, text
from broker.server.admin.topics import Refused
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context


async def handle(request: DescribeConfigsRequest, context: Context) -> Any:
    """Answers when ZooKeeper has answered."""
    answer = Answer.to(request)
    results = await asyncio.gather(
        *(_describe(answer, resource, request, context) for resource in request.resources)
    )
    return answer("DescribeConfigsResponse", throttle_time=NO_THROTTLE, results=tuple(results))


async def _describe(
    answer: Answer,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: Context,
) -> Any:
    refused = Refused(ErrorCode.none, "")
    found: list[Described] = []
    try:
        found = await context.configs.describe(resource.resource_type, resource.resource_name)
    except Refused as error:
        refused = error
    keys = resource.configuration_keys
    return answer(
        "DescribeConfigsResult",
        error_code=refused.error,
        error_message=str(refused) or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _setting(answer, setting, with_synonyms=request.include_synonyms)
            for setting in found
            if not keys or setting.name in keys
        ),
    )


def _setting(answer: Answer, setting: Described, *, with_synonyms: bool) -> Any:
    return answer(
        "DescribeConfigsResourceResult",
        name=setting.name,
        value=text(setting.value),
        read_only=setting.read_only,
        config_source=int(setting.source),
        is_sensitive=False,
        synonyms=tuple(
            answer("DescribeConfigsSynonym", name=name, value=text(value), source=int(source))
            for name, value, source in (setting.synonyms if with_synonyms else ())
        ),
    )
