"""IncrementalAlterConfigs (api 44), versions 0 and 1 (KIP-339).

Behaviour: settings are set (0) or deleted (1), the others stay; see
:mod:`broker.server.admin.config_admin`.
Not modelled: append (2) and subtract (3), since no setting here is a list.
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from broker.server.admin.config_admin import Change
from broker.server.admin.topics import Refused
from broker.server.requests.alter_configs import alter_each, required
from broker.server.requests.context import Context
from broker.server.zk.config_zk import Settings

SET = 0
DELETE = 1


async def handle(request: IncrementalAlterConfigsRequest, context: Context) -> Any:
    """Answers when the settings are in ZooKeeper."""
    return await alter_each(request, "IncrementalAlterConfigsResponse", _changing, context)


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
