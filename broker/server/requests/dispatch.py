"""Request dispatch: the APIs that this broker serves, and the way from a request's frame to its
response's frame. ApiVersions advertises the same table."""

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.server import metrics
from ackproof.broker.server.network.connections import PEER, CloseConnection, Frame, Later, Reply
from ackproof.broker.server.requests import (
    administration,
    control_requests,
    fetch,
    groups,
    logs,
    metadata,
    produce,
)
from ackproof.broker.server.requests.context import Client, Context
from ackproof.broker.wire.codec import (
    FirstFields,
    MalformedRequest,
    RequestHeader,
    UnsupportedVersion,
    first_fields,
    read_request,
    response_pieces,
    write_response,
)
from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.alter_configs import AlterConfigsRequest
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from ackproof.broker.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ackproof.broker.wire.messages.create_partitions import CreatePartitionsRequest
from ackproof.broker.wire.messages.create_topics import CreateTopicsRequest
from ackproof.broker.wire.messages.delete_groups import DeleteGroupsRequest
from ackproof.broker.wire.messages.delete_records import DeleteRecordsRequest
from ackproof.broker.wire.messages.delete_topics import DeleteTopicsRequest
from ackproof.broker.wire.messages.describe_configs import DescribeConfigsRequest
from ackproof.broker.wire.messages.describe_groups import DescribeGroupsRequest
from ackproof.broker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ackproof.broker.wire.messages.elect_leaders import ElectLeadersRequest
from ackproof.broker.wire.messages.fetch import FetchRequest
from ackproof.broker.wire.messages.find_coordinator import FindCoordinatorRequest
from ackproof.broker.wire.messages.heartbeat import HeartbeatRequest
from ackproof.broker.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ackproof.broker.wire.messages.init_producer_id import InitProducerIdRequest
from ackproof.broker.wire.messages.join_group import JoinGroupRequest
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.leave_group import LeaveGroupRequest
from ackproof.broker.wire.messages.list_groups import ListGroupsRequest
from ackproof.broker.wire.messages.list_offsets import ListOffsetsRequest
from ackproof.broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from ackproof.broker.wire.messages.metadata import MetadataRequest
from ackproof.broker.wire.messages.offset_commit import OffsetCommitRequest
from ackproof.broker.wire.messages.offset_delete import OffsetDeleteRequest
from ackproof.broker.wire.messages.offset_fetch import OffsetFetchRequest
from ackproof.broker.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ackproof.broker.wire.messages.produce import ProduceRequest
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest
from ackproof.broker.wire.messages.sync_group import SyncGroupRequest
from ackproof.broker.wire.messages.unregister_broker import UnregisterBrokerRequest
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest

# --- ApiVersions ----------------------------------------------------------------------------------
#
# ApiVersions (api 18), versions 0 to 3.
#
# Behaviour: lists exactly what the table of APIs serves. A version above 3 is answered in version 0
# with UNSUPPORTED_VERSION and the table (KIP-511), so that the client can ask again.
#
# Not modelled: features (KIP-584).
#
# v1 throttle_time, v3 flexible, client name and version.


def handle_api_versions(_request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Answer at once."""
    return _versions_response(ErrorCode.none, context.served)


def unsupported(served: Mapping[int, range]) -> ApiVersionsResponse:
    """Return the answer to a request in an unknown, newer version."""
    return _versions_response(ErrorCode.unsupported_version, served)


def _versions_response(error: ErrorCode, served: Mapping[int, range]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=tuple(
            ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
            for key, versions in served.items()
        ),
    )


# --- the APIs -------------------------------------------------------------------------------------
#
# The APIs that this broker serves. Only this table says so, and ApiVersions advertises it.


Q = TypeVar("Q", bound=Request[Response])
R_co = TypeVar("R_co", bound=Response, covariant=True)

Answer: TypeAlias = R_co | Awaitable[R_co | None] | Later[R_co | None] | None
"""The answer of a handler. None means that the request gets no response.

What a handler does before its first await happens in the order in which the requests of a
connection arrived.
"""


class Started(NamedTuple):
    """A request that was given to a handler, and its answer."""

    header: RequestHeader
    request: Request[Response]
    answer: Answer[Response]


class Served(Protocol):
    """An API of any request."""

    @property
    def versions(self) -> range: ...

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """Decode a request of this API, by its ``first`` fields, and give it to the handler. Raise
        MalformedRequest."""
        ...


@dataclass(frozen=True, slots=True)
class Api(Generic[Q]):
    """A type of request, the versions served, and their handler."""

    request: type[Q]
    versions: range
    handle: Callable[[Q, Context], Answer[Response]]

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """Do as :class:`Served` says."""
        header, request = read_request(self.request, first, frame)
        return Started(header, request, self.handle(request, context))


@dataclass(frozen=True, slots=True)
class ApiOfClient(Generic[Q]):
    """An API whose handler is told which client asks."""

    request: type[Q]
    versions: range
    handle: Callable[[Q, Context, Client], Answer[Response]]

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """Do as :class:`Served` says."""
        header, request = read_request(self.request, first, frame)
        client = Client(header.client_id or "", f"/{PEER.get().address}")
        return Started(header, request, self.handle(request, context, client))


@dataclass(frozen=True, slots=True)
class ApiOfController(Generic[Q]):
    """An API whose handler is told the connection of the request."""

    request: type[Q]
    versions: range
    handle: Callable[[Q, Context, int], Answer[Response]]

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """Do as :class:`Served` says."""
        header, request = read_request(self.request, first, frame)
        answer = self.handle(request, context, PEER.get().connection)
        return Started(header, request, answer)


APIS: Final[Mapping[int, Served]] = {
    0: ApiOfClient(ProduceRequest, range(3, 10), produce.handle_produce),
    1: Api(FetchRequest, range(4, 12), fetch.handle_fetch),
    2: Api(ListOffsetsRequest, range(1, 10), logs.handle_list_offsets),
    3: Api(MetadataRequest, range(1, 10), metadata.handle_metadata),
    4: ApiOfController(LeaderAndIsrRequest, range(5, 6), control_requests.handle_leader_and_isr),
    5: ApiOfController(StopReplicaRequest, range(3, 4), control_requests.handle_stop_replica),
    6: ApiOfController(UpdateMetadataRequest, range(7, 8), control_requests.handle_update_metadata),
    7: Api(ControlledShutdownRequest, range(3, 4), control_requests.handle_controlled_shutdown),
    8: Api(OffsetCommitRequest, range(2, 9), groups.handle_offset_commit),
    9: Api(OffsetFetchRequest, range(1, 9), groups.handle_offset_fetch),
    10: Api(FindCoordinatorRequest, range(5), groups.handle_find_coordinator),
    11: ApiOfClient(JoinGroupRequest, range(10), groups.handle_join_group),
    12: Api(HeartbeatRequest, range(5), groups.handle_heartbeat),
    13: Api(LeaveGroupRequest, range(6), groups.handle_leave_group),
    14: Api(SyncGroupRequest, range(6), groups.handle_sync_group),
    15: Api(DescribeGroupsRequest, range(6), groups.handle_describe_groups),
    16: Api(ListGroupsRequest, range(5), groups.handle_list_groups),
    18: Api(ApiVersionsRequest, range(4), handle_api_versions),
    19: Api(CreateTopicsRequest, range(2, 5), administration.handle_create_topics),
    20: Api(DeleteTopicsRequest, range(1, 6), administration.handle_delete_topics),
    21: Api(DeleteRecordsRequest, range(3), logs.handle_delete_records),
    22: Api(InitProducerIdRequest, range(5), produce.handle_init_producer_id),
    23: Api(OffsetForLeaderEpochRequest, range(2, 5), logs.handle_offset_for_leader_epoch),
    32: Api(DescribeConfigsRequest, range(1, 3), administration.handle_describe_configs),
    33: Api(AlterConfigsRequest, range(3), administration.handle_alter_configs),
    35: Api(DescribeLogDirsRequest, range(1, 5), logs.handle_describe_log_dirs),
    37: Api(CreatePartitionsRequest, range(4), administration.handle_create_partitions),
    43: Api(ElectLeadersRequest, range(1, 3), administration.handle_elect_leaders),
    44: Api(
        IncrementalAlterConfigsRequest, range(2), administration.handle_incremental_alter_configs
    ),
    45: Api(
        AlterPartitionReassignmentsRequest,
        range(1),
        administration.handle_alter_partition_reassignments,
    ),
    46: Api(
        ListPartitionReassignmentsRequest,
        range(1),
        administration.handle_list_partition_reassignments,
    ),
    42: Api(DeleteGroupsRequest, range(3), groups.handle_delete_groups),
    47: Api(OffsetDeleteRequest, range(1), groups.handle_offset_delete),
    64: Api(UnregisterBrokerRequest, range(1), administration.handle_unregister_broker),
}
SERVED: Final = {key: api.versions for key, api in APIS.items()}

_ORDERS: Final = frozenset({4, 5, 6, 7})
"""The APIs between brokers and their controller."""

_WITHOUT_CONTROLLER: Final = frozenset({64})
"""The APIs of brokers without a controller. Kafka's brokers with a controller in ZooKeeper do not
serve these."""

TO_THEIR_END: Final = frozenset({4, 5})
"""The requests that are carried out to the end, whatever happens to the connection.

A controller that dies while a log is deleted would otherwise leave it half deleted. The next one's
StopReplica would find no log and be answered NONE. The offsets that the checkpoints still have
would apply to the next log of that name. All other requests make their change in one step (one
event, one transaction of ZooKeeper), and only wait before and after it.
"""

_AMONG_BROKERS: Final = {1: (13,)}
"""The versions that are served but not advertised, for our own followers. Fetch v13 names topics by
their ids. A client that saw it advertised would expect them from Metadata as well."""


def readable(served: Mapping[int, range]) -> Mapping[int, Container[int]]:
    """Return the versions by API of all that is served, advertised or not."""
    return {
        key: frozenset((*versions, *_AMONG_BROKERS.get(key, ())))
        for key, versions in served.items()
    }


def served(*, orders: bool) -> Mapping[int, range]:
    """Return the versions by API, and leave out a controller's orders if not ``orders``. Without a
    controller, these must not be obeyed from any sender."""
    others = _WITHOUT_CONTROLLER if orders else _ORDERS
    return {key: versions for key, versions in SERVED.items() if key not in others}


# --- dispatch -------------------------------------------------------------------------------------
#
# From a request's frame to its response's frame, through the table of APIs.


API_VERSIONS = 18


class Dispatcher:
    """Starts requests. ``__call__`` is what :class:`~broker.server.network.connections.Connections`
    needs.

    Raises:
        CloseConnection: the bytes are no request that is served here.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._readable = readable(context.served)

    def __call__(self, frame: bytes | memoryview) -> Reply:
        began = perf_counter()
        try:
            started = self._start(frame)
        except UnsupportedVersion as error:
            return _unsupported(error, self._context.served)
        except MalformedRequest as error:
            metrics.MALFORMED_REQUESTS.inc()
            raise CloseConnection(str(error)) from error
        answer = started.answer
        encoded = partial(self._encoded, started, began)
        if isinstance(answer, Later):
            return Later(answer.result, lambda result: encoded(answer.then(result)))
        if isinstance(answer, Awaitable):
            return Later(answer, encoded, started.header.api_key in TO_THEIR_END)
        return encoded(answer)

    def _start(self, frame: bytes | memoryview) -> Started:
        first = first_fields(frame)
        if first.version not in self._readable.get(first.api_key, ()):
            raise UnsupportedVersion(first)
        return APIS[first.api_key].start(first, frame, self._context)

    def _encoded(self, started: Started, began: float, response: Response | None) -> Frame | None:
        self._context.probe.request_answered(started.request, response)
        reply = None
        if response is not None:
            header = started.header
            reply = response_pieces(header.correlation_id, response, header.version)
        metrics.request_done(started.request, perf_counter() - began)
        return reply


def _unsupported(error: UnsupportedVersion, served: Mapping[int, range]) -> bytes:
    if error.first.api_key != API_VERSIONS:
        metrics.MALFORMED_REQUESTS.inc()
        raise CloseConnection(str(error)) from error
    return write_response(error.first.correlation_id, unsupported(served), 0)
