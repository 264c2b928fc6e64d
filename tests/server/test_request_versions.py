"""From which version on a request has a field: kio's classes, made of Kafka's own, know it, too."""

from importlib import import_module

import pytest

from broker.server.replication import fetch_session_cache as sessions
from broker.server.requests import (
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    sync_group,
)
from broker.server.requests.table import SERVED

FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT = 1, 2, 3, 8
FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, LIST_GROUPS = 10, 11, 12, 14, 16
OFFSET_FOR_LEADER_EPOCH = 23

FIELDS = (
    (FETCH, "fetch", "FetchRequest", "session_id", sessions.SESSIONS_SINCE),
    (FETCH, "fetch", "FetchRequest", "session_epoch", sessions.SESSIONS_SINCE),
    (FETCH, "fetch", "FetchPartition", "log_start_offset", fetch.LOG_START_OFFSET_SINCE),
    (FETCH, "fetch", "FetchPartition", "current_leader_epoch", fetch.LEADER_EPOCH_SINCE),
    (
        LIST_OFFSETS,
        "list_offsets",
        "ListOffsetsPartition",
        "current_leader_epoch",
        list_offsets.LEADER_EPOCH_SINCE,
    ),
    (METADATA, "metadata", "MetadataRequest", "allow_auto_topic_creation", metadata.ALLOW_SINCE),
    (
        OFFSET_COMMIT,
        "offset_commit",
        "OffsetCommitRequestPartition",
        "committed_leader_epoch",
        offset_commit.LEADER_EPOCH_SINCE,
    ),
    (
        OFFSET_COMMIT,
        "offset_commit",
        "OffsetCommitRequest",
        "group_instance_id",
        offset_commit.GROUP_INSTANCE_ID_SINCE,
    ),
    (
        FIND_COORDINATOR,
        "find_coordinator",
        "FindCoordinatorRequest",
        "key_type",
        find_coordinator.KEY_TYPE_SINCE,
    ),
    (
        FIND_COORDINATOR,
        "find_coordinator",
        "FindCoordinatorRequest",
        "coordinator_keys",
        find_coordinator.KEYS_SINCE,
    ),
    (
        JOIN_GROUP,
        "join_group",
        "JoinGroupRequest",
        "rebalance_timeout",
        join_group.REBALANCE_TIMEOUT_SINCE,
    ),
    (
        JOIN_GROUP,
        "join_group",
        "JoinGroupRequest",
        "group_instance_id",
        join_group.GROUP_INSTANCE_ID_SINCE,
    ),
    (
        HEARTBEAT,
        "heartbeat",
        "HeartbeatRequest",
        "group_instance_id",
        heartbeat.GROUP_INSTANCE_ID_SINCE,
    ),
    (
        SYNC_GROUP,
        "sync_group",
        "SyncGroupRequest",
        "group_instance_id",
        sync_group.GROUP_INSTANCE_ID_SINCE,
    ),
    (SYNC_GROUP, "sync_group", "SyncGroupRequest", "protocol_type", sync_group.PROTOCOL_SINCE),
    (SYNC_GROUP, "sync_group", "SyncGroupRequest", "protocol_name", sync_group.PROTOCOL_SINCE),
    (LIST_GROUPS, "list_groups", "ListGroupsRequest", "states_filter", list_groups.STATES_SINCE),
    (
        OFFSET_FOR_LEADER_EPOCH,
        "offset_for_leader_epoch",
        "OffsetForLeaderEpochRequest",
        "replica_id",
        offset_for_leader_epoch.REPLICA_ID_SINCE,
    ),
)


@pytest.mark.parametrize(
    ("key", "api", "entity", "field", "since"), FIELDS, ids=[f"{row[2]}-{row[3]}" for row in FIELDS]
)
def test_a_field_is_there_from_its_version_on(
    key: int, api: str, entity: str, field: str, since: int
) -> None:
    having = {
        version
        for version in SERVED[key]
        if field in getattr(import_module(f"kio.schema.{api}.v{version}.request"), entity).__slots__
    }
    assert having == {version for version in SERVED[key] if version >= since}
    assert having != set(SERVED[key]), "a field of every version served needs no number"
