"""Offsets of many groups that have no members, as a tool that resets offsets commits them."""

import asyncio

from kio.schema.errors import ErrorCode

from broker.server.network.broker_connection import Disconnected
from broker.types import Offset
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from simulation.actions import CommitALot
from simulation.clients import CALL_S, PAUSE_S, Client

AT_ONCE = 20


class Committer(Client):
    """What it commits is not judged: it is there for the size of the log."""

    async def commit(self, work: CommitALot) -> None:
        """All rounds."""
        for round_ in range(work.rounds):
            for first in range(0, work.groups, AT_ONCE):
                last = min(work.groups, first + AT_ONCE)
                groups = [f"lots-{number}" for number in range(first, last)]
                await asyncio.gather(*(self._commit(work, group, round_) for group in groups))

    async def _commit(self, work: CommitALot, group: str, offset: int) -> None:
        try:
            asked = FindCoordinatorRequest(version=2, key=group, key_type=0)
            found = await self.ask_any(asked)
            error: ErrorCode = found.error_code
            if error is ErrorCode.none:
                answer = await self.ask(found.node_id, _request(work, group, offset), CALL_S + 2)
                error = answer.topics[0].partitions[0].error_code
        except Disconnected:
            await asyncio.sleep(PAUSE_S)
            return
        self.history.count(f"commit without members: {error.name}")
        if error is not ErrorCode.none:
            await asyncio.sleep(PAUSE_S)


def _request(work: CommitALot, group: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0,
        committed_offset=Offset(offset),
        committed_metadata="m" * work.metadata_bytes,
    )
    topic = OffsetCommitRequestTopic(name=work.topic, partitions=(partition,))
    return OffsetCommitRequest(
        version=7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(topic,),
    )
