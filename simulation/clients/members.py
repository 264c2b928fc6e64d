"""A member of a consumer group. It joins, assigns the partitions if it leads, reads and commits."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import parse_batches
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ackproof.broker.wire.messages.leave_group import LeaveGroupRequest
from simulation.clients import client
from simulation.clients.client import (
    CALL_S,
    EARLIEST,
    PAUSE_S,
    GroupMembership,
    SimulatedClient,
    end_offset,
    fetch,
    list_offset,
    offsets_of,
)
from simulation.model.clients import AnswersModel
from simulation.model.history import ClientHistory, SentCommit
from simulation.plans.actions import CommitMany, Consume

# --- many commits ---------------------------------------------------------------------------------
#
# Commits for many groups without members, as a tool that resets offsets sends them.

CONCURRENT_COMMITS = 20


JUDGED_EVERY = 10
"""One in so many groups has its commits judged. The others only make the log large."""


class SimulatedCommitter(SimulatedClient):
    """A client that commits for many groups.

    ``topic_ids`` returns the id of the topic that has a name now, as far as the world knows.
    """

    def __init__(
        self,
        name: str,
        brokers: Sequence[int],
        history: ClientHistory,
        topic_ids: Callable[[str], object],
    ) -> None:
        super().__init__(name, brokers, history)
        self._topic_ids = topic_ids

    async def commit(self, work: CommitMany) -> None:
        """Commit in all rounds."""
        for round_ in range(work.rounds):
            for first in range(0, work.groups, CONCURRENT_COMMITS):
                last = min(work.groups, first + CONCURRENT_COMMITS)
                numbers = range(first, last)
                await asyncio.gather(*(self._commit(work, n, round_) for n in numbers))

    async def _commit(self, work: CommitMany, number: int, offset: int) -> None:
        group, tp = f"lots-{number}", TopicPartition(work.topic, 0)
        now = asyncio.get_running_loop().time()
        commit = SentCommit(group, tp, self._topic_ids(work.topic), offset, now)
        if number % JUDGED_EVERY == 0:
            self.history.commits.append(commit)
        membership, metadata = client.without_member(group), "m" * work.metadata_bytes
        request = client.commit(membership, tp.topic, {tp.partition: offset}, metadata)
        try:
            found = await self.ask_any(client.find_coordinator(group))
            error: ErrorCode = found.error_code
            if error is ErrorCode.none:
                answer = await self.ask(found.node_id, request, CALL_S + 2)
                error = commit.answer = answer.topics[0].partitions[0].error_code
        except Disconnected:
            await asyncio.sleep(PAUSE_S)
            return
        self.history.count(f"commit without members: {error.name}")
        if error is not ErrorCode.none:
            await asyncio.sleep(PAUSE_S)


R = TypeVar("R", bound=Response)

REBALANCE_MS: Final = 4_000
FORGET_ID: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id)
ROUND_S: Final = 0.5
"""The pause between two rounds of a read, a commit and a heartbeat, in seconds."""


class Rejoin(Exception):
    """The coordinator, the generation or the member id has changed."""


class SimulatedMember(SimulatedClient):
    """One member of a group.

    ``partitions`` returns the number of partitions of a topic, and ``topic_ids`` its id. The
    records that the member reads go to ``answers``.
    """

    def __init__(
        self,
        name: str,
        brokers: Sequence[int],
        history: ClientHistory,
        work: Consume,
        *,
        partitions: Callable[[str], int],
        topic_ids: Callable[[str], object],
        answers: AnswersModel,
    ) -> None:
        super().__init__(name, brokers, history)
        self._work = work
        self._partitions = partitions
        self._topic_ids = topic_ids
        self._answers = answers
        self._has_slept = not work.pause_once_ms
        self._rejoin_at: list[float] = []
        self._member_id = ""
        self._generation = -1
        self._reads: list[int] = []
        self._coordinator: int | None = None

    async def consume(self) -> None:
        """Read and commit until the time of the work is over."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        end = begin + self._work.for_ms / 1000
        self._rejoin_at = [begin + at_ms / 1000 for at_ms in self._work.rejoin_ms]
        while loop.time() < end:
            try:
                await self._run_rounds(end)
            except (Disconnected, Rejoin) as error:
                self.history.count(f"group: {type(error).__name__}")
                self._coordinator = None
                await asyncio.sleep(PAUSE_S)
        if self._work.leaves:
            await self.leave()

    async def _run_rounds(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        await self._find()
        positions = await self._join()
        while loop.time() < end:
            for tp in positions:
                positions[tp] = await self._fetch(tp, positions[tp])
                await self._check_end(tp)
            await self._sleep()
            await self._commit(positions)
            await self._heartbeat()
            await asyncio.sleep(ROUND_S)
            if self._rejoin_at and loop.time() >= self._rejoin_at[0]:
                positions = await self._rejoin()

    async def _rejoin(self) -> dict[TopicPartition, int]:
        """Join again. Every second time the member forgets its id first."""
        del self._rejoin_at[0]
        if len(self._rejoin_at) % 2 == 0:
            self._member_id = ""
        return await self._join()

    async def get_all_partitions(self, end: float) -> GroupMembership | None:
        """Join until this member, the only one of the group, has all partitions, and return its
        identity.

        The result is None if it does not have them by ``end``.
        """
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            try:
                await self._find()
                if len(await self._join()) == self._partitions(self._work.topic):
                    return self._membership
                while loop.time() < end:
                    await asyncio.sleep(ROUND_S)
                    await self._heartbeat()
            except (Disconnected, Rejoin):
                await asyncio.sleep(PAUSE_S)
        return None

    @property
    def _membership(self) -> GroupMembership:
        assert self._coordinator is not None
        return GroupMembership(
            self._coordinator, self._work.group, self._generation, self._member_id
        )

    async def leave(self) -> None:
        """Leave the group."""
        request = LeaveGroupRequest(version=2, group_id=self._work.group, member_id=self._member_id)
        if self._coordinator is None or not self._member_id:
            return
        try:
            await self._ask_coordinator(request)
        except Disconnected:
            self.history.count("group: left silently")

    async def _sleep(self) -> None:
        """Sleep, but only at the first call."""
        if not self._has_slept:
            self._has_slept = True
            await asyncio.sleep(self._work.pause_once_ms / 1000)

    async def _find(self) -> None:
        response = await self.ask_any(client.find_coordinator(self._work.group))
        if response.error_code is not ErrorCode.none:
            raise Rejoin(response.error_code.name)
        self._coordinator = response.node_id

    async def _ask_coordinator(self, request: Request[R], timeout_s: float = CALL_S) -> R:
        assert self._coordinator is not None
        return await self.ask(self._coordinator, request, timeout_s)

    async def _join(self) -> dict[TopicPartition, int]:
        """Join the group, and return the position of each assigned partition."""
        request = self._join_request()
        joined = await self._ask_coordinator(request, CALL_S + REBALANCE_MS / 1000)
        if joined.error_code is ErrorCode.member_id_required:
            self._member_id = joined.member_id
        elif joined.error_code in FORGET_ID:
            self._member_id = ""
        if joined.error_code is not ErrorCode.none:
            raise Rejoin(joined.error_code.name)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        self.history.count("group: joined")
        return await self._committed(await self._sync(joined))

    def _join_request(self) -> JoinGroupRequest:
        """Return the request to join. A static member uses a newer version and prefers another
        protocol."""
        group, instance = self._work.group, self._work.instance
        request = client.join(group, self._member_id, rebalance_ms=REBALANCE_MS)
        if instance is None:
            return replace(request, protocols=self._protocols("share", "spare"))
        known = self._protocols("spare", "share")
        return replace(request, version=9, group_instance_id=instance, protocols=known)

    def _protocols(self, *names: str) -> tuple[JoinGroupRequestProtocol, ...]:
        """Return protocols with the member's present assignment as user data.

        A member that wants to keep its partitions does so, which makes the metadata different each
        time. A member that has forgotten its id has forgotten its assignment, too.
        """
        reads = json.dumps(self._reads if self._member_id else []).encode()
        return tuple(
            client.subscription(name, self._work.topic, name.encode() + reads) for name in names
        )

    async def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        members = sorted(() if joined.skip_assignment else (m.member_id for m in joined.members))
        shares: dict[str, list[int]] = {member: [] for member in members}
        for number in range(self._partitions(self._work.topic) if members else 0):
            shares[members[number % len(members)]].append(number)
        assignments = {member: json.dumps(shares[member]).encode() for member in members}
        synced = await self._ask_coordinator(
            client.sync(self._membership, assignments, self._work.instance)
        )
        self._check_error(synced.error_code)
        self._reads = json.loads(synced.assignment or b"[]")
        return [TopicPartition(self._work.topic, number) for number in self._reads]

    def _check_error(self, error: ErrorCode) -> None:
        if error in FORGET_ID:
            self._member_id = ""
        if error is not ErrorCode.none:
            raise Rejoin(error.name)

    async def _committed(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if not tps:
            return {}
        found = await offsets_of(self, self._coordinator, self._work.group, tps)
        if found is None:
            raise Rejoin("no committed offsets")
        return found

    async def _fetch(self, tp: TopicPartition, offset: int) -> int:
        """Read from ``offset`` on (-1 means the earliest), and return the next position."""
        leader = await self.leader(tp)
        if leader is None:
            return offset
        if offset < 0:
            offset = await list_offset(self, leader, tp, EARLIEST)
            if offset < 0:
                self.forget(tp)
            return offset
        answer = await fetch(self, leader, tp, offset)
        if answer.error_code is ErrorCode.offset_out_of_range:
            return -1
        if answer.error_code is not ErrorCode.none:
            self.forget(tp)
            return offset
        for batch in parse_batches(answer.records or b"", partial_tail=True):
            if batch.next_offset > offset:
                self._answers.read(tp, batch)
                offset = batch.next_offset
        return offset

    async def _check_end(self, tp: TopicPartition) -> None:
        leader = await self.leader(tp)
        if leader is not None:
            read_end = self._answers.read_end(tp)
            end, epoch = await end_offset(self, leader, tp)
            if end >= 0:
                self._answers.end_answered(tp, leader, epoch, end, read_end)

    async def _commit(self, positions: dict[TopicPartition, int]) -> None:
        now = asyncio.get_running_loop().time()
        commits = [
            SentCommit(self._work.group, tp, self._topic_ids(tp.topic), offset, now)
            for tp, offset in positions.items()
            if offset >= 0
        ]
        if not commits:
            return
        self.history.commits.extend(commits)
        offsets = {commit.tp.partition: commit.offset for commit in commits}
        request = client.commit(
            self._membership, self._work.topic, offsets, "", self._work.instance
        )
        response = await self._ask_coordinator(request, CALL_S + 2)
        errors = {p.partition_index: p.error_code for t in response.topics for p in t.partitions}
        for commit in commits:
            commit.answer = errors[commit.tp.partition]
            self.history.count(f"commit: {commit.answer.name}")
        for error in errors.values():
            self._check_error(error)

    async def _heartbeat(self) -> None:
        request = client.heartbeat(self._membership, self._work.instance)
        self._check_error((await self._ask_coordinator(request)).error_code)
