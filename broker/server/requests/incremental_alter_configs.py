"""IncrementalAlterConfigs (api 44), versions 0 and 1 (KIP-339).

Behaviour: settings are set (0) or deleted (1), the others stay; see
:mod:`broker.server.admin.config_admin`.
Not modelled: append (2) and subtract (3), since no setting here is a list.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin.config_admin import Change
from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.alter_configs import alter_each, required
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.zk.config_zk import Settings
from ackproof.broker.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET = 0
DELETE = 1


async def handle(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Answers when the settings are in ZooKeeper."""
    results = await alter_each(
        request.resources, _changing, context, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
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


def _changing(resource: AlterConfigsResource) -> Change:
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
