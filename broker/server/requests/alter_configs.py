"""AlterConfigs (api 33), versions 0 to 2.

Behaviour: what is given replaces all settings that the topic or broker has of its own; see
:mod:`broker.server.admin.config_admin`. Superseded by IncrementalAlterConfigs (KIP-339), which
shares its way of answering.
Not modelled: loggers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin.config_admin import Change
from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.zk.config_zk import Settings
from ackproof.broker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class Named(Protocol):
    """A setting."""

    @property
    def name(self) -> str: ...


class Resource(Protocol):
    """A topic or a broker, with what is said of its settings."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...

    @property
    def configs(self) -> Sequence[Named]: ...


R = TypeVar("R", bound=Resource)


async def handle(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Answers when the settings are in ZooKeeper."""
    results = await alter_each(
        request.resources, _replacing, context, validate_only=request.validate_only
    )
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=result.error,
                error_message=str(result) or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, result in zip(request.resources, results, strict=True)
        ),
    )


async def alter_each(
    resources: Sequence[R],
    change_of: Callable[[R], Change],
    context: Context,
    *,
    validate_only: bool,
) -> Sequence[Refused]:
    """Applies ``change_of(resource)`` to each resource; what came of each."""
    named = Counter((each.resource_type, each.resource_name) for each in resources)
    return await asyncio.gather(
        *(
            _alter(
                resource,
                change_of(resource),
                context,
                is_only=named[resource.resource_type, resource.resource_name] == 1,
                validate_only=validate_only,
            )
            for resource in resources
        )
    )


async def _alter(
    resource: Resource, change: Change, context: Context, *, is_only: bool, validate_only: bool
) -> Refused:
    try:
        if not is_only:
            raise Refused(ErrorCode.invalid_request, "Each resource must appear at most once.")
        names = [config.name for config in resource.configs]
        if len(set(names)) != len(names):
            raise Refused(ErrorCode.invalid_request, f"A setting is named twice: {names}.")
        await context.configs.alter(
            resource.resource_type, resource.resource_name, change, validate_only=validate_only
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
