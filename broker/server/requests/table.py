"""Which APIs this broker serves: the only place that says so. ApiVersions advertises this table."""

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ackproof.broker.server.network.connections import PEER, Later
from ackproof.broker.server.requests import (
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
    unregister_broker,
    update_metadata,
)
from ackproof.broker.server.requests.client import Client
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.codec import FirstFields, RequestHeader, read_request
from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.alter_configs import AlterConfigsRequest
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from ackproof.broker.wire.messages.api_versions import ApiVersionsRequest
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

Q = TypeVar("Q", bound=Request[Response])
R_co = TypeVar("R_co", bound=Response, covariant=True)

Answer: TypeAlias = R_co | Awaitable[R_co | None] | Later[R_co | None] | None
"""None: the request gets no response.

What a handler does before it awaits anything happens in the order in which the requests of a
connection arrived.
"""


class Started(NamedTuple):
    """A request that a handler was given, and what it said."""

    header: RequestHeader
    request: Request[Response]
    answer: Answer[Response]


class Served(Protocol):
    """An API of whatever request."""

    @property
    def versions(self) -> range: ...

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """Decodes a request of this API, by its ``first`` fields, and hands it over; raises
        MalformedRequest."""
        ...


@dataclass(frozen=True, slots=True)
class Api(Generic[Q]):
    """Which requests in which versions, and who serves them."""

    request: type[Q]
    versions: range
    handle: Callable[[Q, Context], Answer[Response]]

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """As :class:`Served` has it."""
        header, request = read_request(self.request, first, frame)
        return Started(header, request, self.handle(request, context))


@dataclass(frozen=True, slots=True)
class ApiOfClient(Generic[Q]):
    """The same, where the handler is told who asks."""

    request: type[Q]
    versions: range
    handle: Callable[[Q, Context, Client], Answer[Response]]

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """As :class:`Served` has it."""
        header, request = read_request(self.request, first, frame)
        client = Client(header.client_id or "", f"/{PEER.get().address}")
        return Started(header, request, self.handle(request, context, client))


@dataclass(frozen=True, slots=True)
class ApiOfController(Generic[Q]):
    """The same, where the handler is told on which connection it was asked."""

    request: type[Q]
    versions: range
    handle: Callable[[Q, Context, int], Answer[Response]]

    def start(self, first: FirstFields, frame: BytesLike, context: Context) -> Started:
        """As :class:`Served` has it."""
        header, request = read_request(self.request, first, frame)
        answer = self.handle(request, context, PEER.get().connection)
        return Started(header, request, answer)


APIS: Final[Mapping[int, Served]] = {
    0: ApiOfClient(ProduceRequest, range(3, 10), produce.handle),
    1: Api(FetchRequest, range(4, 12), fetch.handle),
    2: Api(ListOffsetsRequest, range(1, 10), list_offsets.handle),
    3: Api(MetadataRequest, range(1, 10), metadata.handle),
    4: ApiOfController(LeaderAndIsrRequest, range(5, 6), leader_and_isr.handle),
    5: ApiOfController(StopReplicaRequest, range(3, 4), stop_replica.handle),
    6: ApiOfController(UpdateMetadataRequest, range(7, 8), update_metadata.handle),
    7: Api(ControlledShutdownRequest, range(3, 4), controlled_shutdown.handle),
    8: Api(OffsetCommitRequest, range(2, 9), offset_commit.handle),
    9: Api(OffsetFetchRequest, range(1, 9), offset_fetch.handle),
    10: Api(FindCoordinatorRequest, range(5), find_coordinator.handle),
    11: ApiOfClient(JoinGroupRequest, range(10), join_group.handle),
    12: Api(HeartbeatRequest, range(5), heartbeat.handle),
    13: Api(LeaveGroupRequest, range(6), leave_group.handle),
    14: Api(SyncGroupRequest, range(6), sync_group.handle),
    15: Api(DescribeGroupsRequest, range(6), describe_groups.handle),
    16: Api(ListGroupsRequest, range(5), list_groups.handle),
    18: Api(ApiVersionsRequest, range(4), api_versions.handle),
    19: Api(CreateTopicsRequest, range(2, 5), create_topics.handle),
    20: Api(DeleteTopicsRequest, range(1, 6), delete_topics.handle),
    21: Api(DeleteRecordsRequest, range(3), delete_records.handle),
    22: Api(InitProducerIdRequest, range(5), init_producer_id.handle),
    23: Api(OffsetForLeaderEpochRequest, range(2, 5), offset_for_leader_epoch.handle),
    32: Api(DescribeConfigsRequest, range(1, 3), describe_configs.handle),
    33: Api(AlterConfigsRequest, range(3), alter_configs.handle),
    35: Api(DescribeLogDirsRequest, range(1, 5), describe_log_dirs.handle),
    37: Api(CreatePartitionsRequest, range(4), create_partitions.handle),
    43: Api(ElectLeadersRequest, range(1, 3), elect_leaders.handle),
    44: Api(IncrementalAlterConfigsRequest, range(2), incremental_alter_configs.handle),
    45: Api(AlterPartitionReassignmentsRequest, range(1), alter_partition_reassignments.handle),
    46: Api(ListPartitionReassignmentsRequest, range(1), list_partition_reassignments.handle),
    42: Api(DeleteGroupsRequest, range(3), delete_groups.handle),
    47: Api(OffsetDeleteRequest, range(1), offset_delete.handle),
    64: Api(UnregisterBrokerRequest, range(1), unregister_broker.handle),
}
SERVED: Final = {key: api.versions for key, api in APIS.items()}

_ORDERS: Final = frozenset({4, 5, 6, 7})
"""Between brokers and their controller."""

_WITHOUT_CONTROLLER: Final = frozenset({64})
"""Of brokers that have no controller. Kafka's that have one in ZooKeeper do not serve these."""

TO_THEIR_END: Final = frozenset({4, 5})
"""Carried out to the end once they have come, whatever becomes of the connection. A controller that
dies while a log is deleted would leave it half deleted: the next one's StopReplica finds no log and
is answered NONE, and the offsets that the checkpoints still have are those of the next log of that
name. All others change what they change in one step (one event, one transaction of ZooKeeper), and
only wait before and after it."""

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
    others = _WITHOUT_CONTROLLER if orders else _ORDERS
    return {key: versions for key, versions in SERVED.items() if key not in others}
