"""Which APIs this broker serves: the only place that says so. ApiVersions advertises this table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from broker.server.requests import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    leader_and_isr,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    update_metadata,
)

Handler = Callable[..., Any]
"""(request, context) -> response, None for no response, or an awaitable of one of them.

What a handler does before it awaits anything happens in the order in which the requests of a
connection arrived.
"""


@dataclass(frozen=True, slots=True)
class Api:
    """Versions served, and who serves them."""

    versions: range
    handle: Handler


def _api(first: int, last: int, handle: Handler) -> Api:
    return Api(range(first, last + 1), handle)


APIS: Final = {
    0: _api(3, 9, produce.handle),
    1: _api(4, 11, fetch.handle),
    2: _api(1, 7, list_offsets.handle),
    3: _api(1, 8, metadata.handle),
    4: _api(5, 5, leader_and_isr.handle),
    5: _api(3, 3, stop_replica.handle),
    6: _api(7, 7, update_metadata.handle),
    7: _api(3, 3, controlled_shutdown.handle),
    10: _api(0, 2, find_coordinator.handle),
    18: _api(0, 3, api_versions.handle),
    19: _api(2, 4, create_topics.handle),
    20: _api(1, 5, delete_topics.handle),
    21: _api(0, 2, delete_records.handle),
    22: _api(0, 4, init_producer_id.handle),
    23: _api(2, 4, offset_for_leader_epoch.handle),
    32: _api(1, 2, describe_configs.handle),
    33: _api(0, 2, alter_configs.handle),
    37: _api(0, 3, create_partitions.handle),
    43: _api(1, 2, elect_leaders.handle),
    44: _api(0, 1, incremental_alter_configs.handle),
    45: _api(0, 0, alter_partition_reassignments.handle),
    46: _api(0, 0, list_partition_reassignments.handle),
}
SERVED: Final = {key: api.versions for key, api in APIS.items()}
