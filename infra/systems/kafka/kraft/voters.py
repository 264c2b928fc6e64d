"""The voters of a metadata quorum that can be changed (KIP-853, ``kraft.version`` 1).

The active controller describes the quorum (DescribeQuorum), and adds and removes voters
(AddRaftVoter, RemoveRaftVoter), as ``kafka-metadata-quorum`` does. It takes one change at a time,
and answers when the change is committed.
"""

import base64
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath

from kio.schema.add_raft_voter.v0.request import AddRaftVoterRequest, Listener
from kio.schema.add_raft_voter.v0.response import AddRaftVoterResponse
from kio.schema.describe_quorum.v2.request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, u16
from kio.static.protocol import RequestPayload

from ackproof.infra.api.capabilities import AdminTimeout, OrderRefused
from ackproof.infra.api.interface import InfraError, ViewUnavailable
from ackproof.infra.systems.server import NodeServer
from ackproof.infra.systems.wire import call

_TOPIC = "__cluster_metadata"
_ANSWERS_WITHIN_S = 2.0
_CHANGES_WITHIN_S = 10.0
"""The time for one attempt to change the voters: the change must be committed."""
_AGAIN_S = 0.5
_DIRECTORY_ID = b"directory.id="


def new_directory_id() -> str:
    """Return a random id of a directory, as ``Uuid.randomUuid`` does: 22 characters, without a
    dash at the beginning."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


@dataclass(frozen=True, slots=True)
class Voter:
    """A controller that can vote.

    Attributes:
        listener: The name of its listener.
        directories: What it keeps: the metadata log first.
    """

    server: NodeServer
    listener: str
    directories: Sequence[PurePosixPath]

    @property
    def address(self) -> tuple[str, int]:
        return self.server.node.address, self.server.port


class DynamicVoters:
    """An ``infra.api.capabilities.Voters`` of Apache Kafka.

    Args:
        cluster_id: The id of the cluster.
        controllers: All controllers, whether they vote or not.

    Attributes:
        emptied: The ``node.id``s of the controllers whose disks were emptied.
    """

    def __init__(self, cluster_id: str, controllers: Sequence[Voter]) -> None:
        self._cluster_id = cluster_id
        self._controllers = {one.server.id: one for one in controllers}
        self.emptied: set[int] = set()

    def now(self) -> Mapping[int, str]:
        part = TopicData(
            topic_name=TopicName(_TOPIC), partitions=(PartitionData(partition_index=i32(0)),)
        )
        request = DescribeQuorumRequest(topics=(part,))
        reasons = []
        for one in self._controllers.values():
            try:
                answer = call(one.address, request, DescribeQuorumResponse, _ANSWERS_WITHIN_S)
            except OSError as silence:
                reasons.append(f"{one.server.name}: {silence}")
                continue
            found = [part for topic in answer.topics for part in topic.partitions]
            codes = [answer.error_code, *(each.error_code for each in found)]
            wrong = next((code for code in codes if code is not ErrorCode.none), None)
            if found and wrong is None:
                voters = found[0].current_voters
                return {int(v.replica_id): _text(v.replica_directory_id) for v in voters}
            reasons.append(f"{one.server.name}: {'no answer' if wrong is None else wrong.name}")
        raise ViewUnavailable(f"no controller describes the quorum ({', '.join(reasons)})")

    def directory(self, controller: int) -> str:
        one = self._controllers[controller]
        try:
            lines = one.server.node.read(one.directories[0] / "meta.properties").splitlines()
        except FileNotFoundError as missing:
            raise InfraError(f"{one.server.name} has no directory id yet") from missing
        found = [line for line in lines if line.startswith(_DIRECTORY_ID)]
        if not found:
            raise InfraError(f"{one.server.name} has no directory id in its meta.properties")
        return found[0].removeprefix(_DIRECTORY_ID).decode()

    def remove(self, controller: int, within_s: float) -> None:
        def request() -> RemoveRaftVoterRequest | None:
            if (directory := self.now().get(controller)) is None:
                return None
            return RemoveRaftVoterRequest(
                cluster_id=self._cluster_id,
                voter_id=i32(controller),
                voter_directory_id=_uuid(directory),
            )

        self._change(request, RemoveRaftVoterResponse, within_s)

    def add(self, controller: int, within_s: float) -> None:
        one = self._controllers[controller]
        host, port = one.address

        def request() -> AddRaftVoterRequest | None:
            directory = self.directory(controller)
            if self.now().get(controller) == directory:
                return None
            return AddRaftVoterRequest(
                cluster_id=self._cluster_id,
                timeout=i32Timedelta.parse(timedelta(seconds=_CHANGES_WITHIN_S)),
                voter_id=i32(controller),
                voter_directory_id=_uuid(directory),
                listeners=(Listener(name=one.listener, host=host, port=u16(port)),),
            )

        self._change(request, AddRaftVoterResponse, within_s)

    def empty(self, controller: int) -> None:
        one = self._controllers[controller]
        if not one.server.exited():
            raise RuntimeError(f"{one.server.name} runs: its disk is not changed")
        if controller in self.now():
            raise RuntimeError(f"{one.server.name} still votes: its disk is not changed")
        for directory in one.directories:
            one.server.node.empty(directory)
        self.emptied.add(controller)

    def _change(
        self,
        request: Callable[[], RequestPayload | None],
        answer: type[AddRaftVoterResponse] | type[RemoveRaftVoterResponse],
        within_s: float,
    ) -> None:
        """Repeat a change until it is made. ``request`` returns None when it is."""
        deadline = time.monotonic() + within_s
        unknown = False
        while True:
            try:
                if (asked := request()) is None:
                    return
                refusal = self._asked(asked, answer)
            except InfraError as failure:
                refusal = str(failure)
            else:
                # A change that was not refused may yet be made. The next look decides.
                unknown = unknown or refusal is None
            if time.monotonic() >= deadline:
                kind = AdminTimeout if unknown else OrderRefused
                raise kind(f"the voters were not changed in time: {refusal or 'no answer'}")
            time.sleep(_AGAIN_S)

    def _asked(
        self,
        request: RequestPayload,
        answer: type[AddRaftVoterResponse] | type[RemoveRaftVoterResponse],
    ) -> str | None:
        """Ask one controller after the other. Return why they refuse; None if the active one
        accepts, or did not answer in time."""
        reasons = []
        for one in self._controllers.values():
            try:
                found = call(one.address, request, answer, _CHANGES_WITHIN_S + _ANSWERS_WITHIN_S)
            except ConnectionRefusedError as refusal:
                reasons.append(f"{one.server.name}: {refusal}")
                continue
            except OSError:
                return None
            if found.error_code is ErrorCode.none:
                return None
            reasons.append(f"{one.server.name}: {found.error_message or found.error_code.name}")
        return ", ".join(reasons)


def _uuid(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _text(found: uuid.UUID | None) -> str:
    number = found or uuid.UUID(int=0)
    return base64.urlsafe_b64encode(number.bytes).rstrip(b"=").decode()
