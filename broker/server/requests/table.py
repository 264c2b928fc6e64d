"""Which APIs this broker serves: the only place that says so. ApiVersions advertises this table."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.server.requests import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    update_metadata,
)

Handler = Callable[..., Any]
"""(request, context) -> response, None for no response, or an awaitable or Later of one of them.

What a handler does before it awaits anything happens in the order in which the requests of a
connection arrived.
"""


@dataclass(frozen=True, slots=True)
class Api:
    """Versions served, and who serves them."""

    versions: range
    handle: Handler
    wants_client: bool = False
    """The handler is told who asks: (request, context, client)."""


def _api(first: int, last: int, handle: Handler, *, wants_client: bool = False) -> Api:
    return Api(range(first, last + 1), handle, wants_client)


APIS: Final = {
    0: _api(3, 9, produce.handle, wants_client=True),
    1: _api(4, 11, fetch.handle),
    2: _api(1, 9, list_offsets.handle),
    3: _api(1, 8, metadata.handle),
    4: _api(5, 5, leader_and_isr.handle),
    5: _api(3, 3, stop_replica.handle),
    6: _api(7, 7, update_metadata.handle),
    7: _api(3, 3, controlled_shutdown.handle),
    8: _api(2, 8, offset_commit.handle),
    9: _api(1, 8, offset_fetch.handle),
    10: _api(0, 4, find_coordinator.handle),
    11: _api(0, 9, join_group.handle, wants_client=True),
    12: _api(0, 4, heartbeat.handle),
    13: _api(0, 5, leave_group.handle),
    14: _api(0, 5, sync_group.handle),
    15: _api(0, 5, describe_groups.handle),
    16: _api(0, 4, list_groups.handle),
    18: _api(0, 3, api_versions.handle),
    19: _api(2, 4, create_topics.handle),
    20: _api(1, 5, delete_topics.handle),
    21: _api(0, 2, delete_records.handle),
    22: _api(0, 4, init_producer_id.handle),
    23: _api(2, 4, offset_for_leader_epoch.handle),
    32: _api(1, 2, describe_configs.handle),
    33: _api(0, 2, alter_configs.handle),
    35: _api(1, 4, describe_log_dirs.handle),
    37: _api(0, 3, create_partitions.handle),
    43: _api(1, 2, elect_leaders.handle),
    44: _api(0, 1, incremental_alter_configs.handle),
    45: _api(0, 0, alter_partition_reassignments.handle),
    46: _api(0, 0, list_partition_reassignments.handle),
    42: _api(0, 2, delete_groups.handle),
    47: _api(0, 0, offset_delete.handle),
}
SERVED: Final = {key: api.versions for key, api in APIS.items()}

_ORDERS: Final = frozenset({4, 5, 6, 7})
"""Between brokers and their controller."""

_AMONG_BROKERS: Final = {1: (13,)}
"""Versions that are served but not advertised, for our own followers. Fetch v13 names topics by
their ids; a client that saw it offered would want them from Metadata as well."""


def readable(served: Mapping[int, range]) -> Mapping[int, Container[int]]:
    """Versions by API of all that is served, advertised or not."""
    return {
        key: frozenset((*versions, *_AMONG_BROKERS.get(key, ())))
        for key, versions in served.items()
    }


def served(*, orders: bool) -> Mapping[int, range]:
    """Versions by API; without ``orders`` none of those by which a controller is obeyed: where
    there is none, whoever sends them is not to be believed."""
    return {key: versions for key, versions in SERVED.items() if orders or key not in _ORDERS}
