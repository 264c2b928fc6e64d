"""From which version on a request has a field: kio's classes, made of Kafka's own, know it, too."""

from importlib import import_module
from typing import get_args, get_type_hints

import pytest

from ackproof.broker.server.replication import fetch_session_cache as sessions
from ackproof.broker.server.requests import groups
from ackproof.broker.server.requests.dispatch import APIS, SERVED
from ackproof.broker.wire.message import Request

FETCH, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, LEAVE_GROUP = 1, 9, 10, 11, 13

FIELDS = (
    (FETCH, "FetchRequest", "session_id", sessions.SESSIONS_SINCE),
    (FETCH, "FetchRequest", "session_epoch", sessions.SESSIONS_SINCE),
    (OFFSET_FETCH, "OffsetFetchRequest", "groups", groups.GROUPS_SINCE),
    (
        FIND_COORDINATOR,
        "FindCoordinatorRequest",
        "coordinator_keys",
        groups.KEYS_SINCE,
    ),
    (
        JOIN_GROUP,
        "JoinGroupRequest",
        "rebalance_timeout",
        groups.REBALANCE_TIMEOUT_SINCE,
    ),
    (LEAVE_GROUP, "LeaveGroupRequest", "members", groups.BATCH_SINCE),
)


@pytest.mark.parametrize(
    ("key", "entity", "field", "since"), FIELDS, ids=[f"{row[1]}-{row[2]}" for row in FIELDS]
)
def test_a_field_is_there_from_its_version_on(
    key: int, entity: str, field: str, since: int
) -> None:
    api = APIS[key].request.__module__.rpartition(".")[2]
    having = {
        version
        for version in SERVED[key]
        if field in getattr(import_module(f"kio.schema.{api}.v{version}.request"), entity).__slots__
    }
    assert having == {version for version in SERVED[key] if version >= since}
    assert having != set(SERVED[key]), "a field of every version served needs no number"


@pytest.mark.parametrize("key", APIS)
def test_served_version_has_a_class(key: int) -> None:
    request: type[Request] = APIS[key].request
    assert key == request.API_KEY
    assert set(APIS[key].versions) <= set(request.VERSIONS)


@pytest.mark.parametrize("key", APIS)
def test_a_handler_answers_its_own_request(key: int) -> None:
    hints = get_type_hints(APIS[key].handle)
    asked, answered = next(iter(hints.values())), hints["return"]
    assert asked is APIS[key].request
    assert answered is asked.response() or asked.response() in get_args(answered)
