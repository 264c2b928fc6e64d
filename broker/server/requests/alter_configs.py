"""AlterConfigs (api 33), versions 0 to 2.

Behaviour: what is given replaces all settings that the topic or broker has of its own; see
:mod:`broker.server.admin.config_admin`. Superseded by IncrementalAlterConfigs (KIP-339), which
shares its way of answering.
Not modelled: loggers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.errors import ErrorCode

from broker.server.admin.config_admin import Change
from broker.server.admin.topics import Refused
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.server.zk.config_zk import Settings


async def handle(request: AlterConfigsRequest, context: Context) -> Any:
    """Answers when the settings are in ZooKeeper."""
    return await alter_each(request, "AlterConfigsResponse", _replacing, context)


async def alter_each(
    request: Any, response: str, change_of: Callable[[Any], Change], context: Context
) -> Any:
    """Applies ``change_of(resource)`` to each resource, and answers in ``response``."""
    answer = Answer.to(request)
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    results = await asyncio.gather(
        *(_alter(resource, request, named, change_of, context) for resource in request.resources)
    )
    return answer(
        response,
        throttle_time=NO_THROTTLE,
        responses=tuple(
            answer(
                "AlterConfigsResourceResponse",
                error_code=result.error,
                error_message=str(result) or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, result in zip(request.resources, results, strict=True)
        ),
    )


async def _alter(
    resource: Any,
    request: Any,
    named: Mapping[tuple[int, str], int],
    change_of: Callable[[Any], Change],
    context: Context,
) -> Refused:
    try:
        if named[resource.resource_type, resource.resource_name] > 1:
            raise Refused(ErrorCode.invalid_request, "Each resource must appear at most once.")
        names = [config.name for config in resource.configs]
        if len(set(names)) != len(names):
            raise Refused(ErrorCode.invalid_request, f"A setting is named twice: {names}.")
        await context.configs.alter(
            resource.resource_type,
            resource.resource_name,
            change_of(resource),
            validate_only=request.validate_only,
        )
    except Refused as refused:
        return refused
    return Refused(ErrorCode.none, "")


def required(name: str, value: str | None) -> str:
    """The value; raises Refused when there is none."""
    if value is None:
        raise Refused(ErrorCode.invalid_request, f"{name} is given no value.")
    return value


def _replacing(resource: AlterConfigsResource) -> Change:
    def change(_old: Settings) -> Settings:
        return {config.name: required(config.name, config.value) for config in resource.configs}

    return change
