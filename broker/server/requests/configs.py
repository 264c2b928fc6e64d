"""Requests that describe and alter the settings of topics and brokers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.dynamic_config import Described, text
from ackproof.broker.server.admin.configs import Change
from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.zk.config_zk import Settings
from ackproof.broker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ackproof.broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ackproof.broker.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from ackproof.broker.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalAlterConfigsResourceResponse,
)
from ackproof.broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

# --- DescribeConfigs ------------------------------------------------------------------------------
#
# DescribeConfigs (api 32), versions 1 and 2.
#
# Behaviour: the settings of a topic, or the properties of this broker, with their sources. The
# overrides of a broker's properties may be a moment behind ZooKeeper.
#
# Not modelled: types and documentation (v3), loggers. Nothing here is sensitive.


async def handle_describe_configs(
    request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResponse:
    """Answer when ZooKeeper has answered."""
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


# --- AlterConfigs ---------------------------------------------------------------------------------
#
# AlterConfigs (api 33), versions 0 to 2.
#
# Behaviour: the given settings replace all that the topic or broker has of its own; see
# :mod:`broker.server.admin.configs`. Superseded by IncrementalAlterConfigs (KIP-339), which shares
# its way of answering.
#
# Not modelled: loggers.


class Named(Protocol):
    """A setting with a name."""

    @property
    def name(self) -> str: ...


class Resource(Protocol):
    """A topic or a broker, with the requested settings."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...

    @property
    def configs(self) -> Sequence[Named]: ...


R = TypeVar("R", bound=Resource)


async def handle_alter_configs(
    request: AlterConfigsRequest, context: Context
) -> AlterConfigsResponse:
    """Answer when the settings are in ZooKeeper."""
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
    """Apply ``change_of(resource)`` to each resource, and return the outcomes."""
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
    """Return the value. Raise Refused when there is none."""
    if value is None:
        raise Refused(ErrorCode.invalid_request, f"{name} is given no value.")
    return value


def _replacing(resource: AlterConfigsResource) -> Change:
    def change(_old: Settings) -> Settings:
        return {config.name: required(config.name, config.value) for config in resource.configs}

    return change


# --- IncrementalAlterConfigs ----------------------------------------------------------------------
#
# IncrementalAlterConfigs (api 44), versions 0 and 1 (KIP-339).
#
# Behaviour: settings are set (0) or deleted (1), and the others stay; see
# :mod:`broker.server.admin.configs`.
#
# Not modelled: append (2) and subtract (3), because no setting here is a list.


SET = 0
DELETE = 1


async def handle_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Answer when the settings are in ZooKeeper."""
    results = await alter_each(
        request.resources, _changing, context, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalAlterConfigsResourceResponse(
                error_code=result.error,
                error_message=str(result) or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, result in zip(request.resources, results, strict=True)
        ),
    )


def _changing(resource: IncrementalAlterConfigsResource) -> Change:
    def change(old: Settings) -> Settings:
        new = dict(old)
        for config in resource.configs:
            if config.config_operation == SET:
                new[config.name] = required(config.name, config.value)
            elif config.config_operation == DELETE:
                new.pop(config.name, None)
            else:
                raise Refused(ErrorCode.invalid_config, f"{config.name} is not a list.")
        return new

    return change
