"""The APIs and versions for which the broker has classes.

They are those that it serves, those that its own followers and controller use, and versions in
between. ``broker/server/requests/dispatch.py`` says which are served; these must be among the ones
here.
"""

from collections.abc import Mapping
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.index import api_key_map

from protocol import group_records, interbroker
from protocol.schema import message
from protocol.source import api, formatted, module

VERSIONS: Final[Mapping[int, tuple[int, int]]] = {
    0: (3, 9),
    1: (4, 13),
    2: (1, 9),
    3: (1, 9),
    8: (2, 8),
    9: (1, 8),
    10: (0, 4),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 5),
    16: (0, 4),
    18: (0, 3),
    19: (2, 4),
    20: (1, 5),
    21: (0, 2),
    22: (0, 4),
    23: (2, 4),
    32: (1, 2),
    33: (0, 2),
    35: (1, 4),
    37: (0, 3),
    42: (0, 2),
    43: (1, 2),
    44: (0, 1),
    45: (0, 0),
    46: (0, 0),
    47: (0, 0),
    64: (0, 0),
}
"""The first and last version by API key, from kio."""

INTERBROKER: Final[Mapping[str, tuple[type[Any], type[Any]]]] = {
    "leader_and_isr": (interbroker.LeaderAndIsrRequest, interbroker.LeaderAndIsrResponse),
    "stop_replica": (interbroker.StopReplicaRequest, interbroker.StopReplicaResponse),
    "update_metadata": (interbroker.UpdateMetadataRequest, interbroker.UpdateMetadataResponse),
    "controlled_shutdown": (
        interbroker.ControlledShutdownRequest,
        interbroker.ControlledShutdownResponse,
    ),
}
"""The requests that kio lacks, in one version each."""


DATA: Final[Mapping[str, tuple[str, tuple[type[Any], ...]]]] = {
    "group_records": (
        "The records of ``__consumer_offsets``.",
        (
            group_records.OffsetCommitKey,
            group_records.OffsetCommitValue,
            group_records.GroupMetadataKey,
            group_records.GroupMetadataValue,
        ),
    ),
    "consumer_protocol": (
        "The metadata of a consumer as a member of its group.",
        (ConsumerProtocolSubscription,),
    ),
}
"""The messages that are neither requests nor responses, in one version each."""


def types() -> Mapping[str, tuple[Mapping[int, Any], Mapping[int, Any]]]:
    """Return the classes of requests and of responses, by version, for each module that is
    generated."""
    found: dict[str, tuple[Mapping[int, Any], Mapping[int, Any]]] = {
        api_key_map[key]: (
            {v: load_request_schema(key, v) for v in range(first, last + 1)},
            {v: load_response_schema(key, v) for v in range(first, last + 1)},
        )
        for key, (first, last) in VERSIONS.items()
    }
    for name, pair in INTERBROKER.items():
        request, response = pair
        found[name] = {int(request.__version__): request}, {int(request.__version__): response}
    return found


def modules() -> Mapping[str, str]:
    """Return the text of each module by its name."""
    made = {
        name: api(message(asked), message(answered)) for name, (asked, answered) in types().items()
    }
    made |= {
        name: module(title, [message({int(one.__version__): one}) for one in those])
        for name, (title, those) in DATA.items()
    }
    return formatted(made)
