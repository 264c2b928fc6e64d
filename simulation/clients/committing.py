"""Offsets of many groups that have no members, as a tool that resets offsets commits them."""

import asyncio
from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.types import TopicPartition
from simulation.clients import group_requests
from simulation.clients.client import CALL_S, PAUSE_S, Client
from simulation.model.history import Commit, History
from simulation.plans.actions import CommitALot

AT_ONCE = 20


JUDGED = 10
"""Of so many groups what one commits is judged; the others are there for the size of the log."""


class Committer(Client):
    """``topic_ids`` names the topic that has a name now, as far as the world knows."""

    def __init__(
        self,
        name: str,
        brokers: Sequence[int],
        history: History,
        topic_ids: Callable[[str], object],
    ) -> None:
        super().__init__(name, brokers, history)
        self._topic_ids = topic_ids

    async def commit(self, work: CommitALot) -> None:
        """All rounds."""
        for round_ in range(work.rounds):
            for first in range(0, work.groups, AT_ONCE):
                last = min(work.groups, first + AT_ONCE)
                numbers = range(first, last)
                await asyncio.gather(*(self._commit(work, n, round_) for n in numbers))

    async def _commit(self, work: CommitALot, number: int, offset: int) -> None:
        group, tp = f"lots-{number}", TopicPartition(work.topic, 0)
        now = asyncio.get_running_loop().time()
        commit = Commit(group, tp, self._topic_ids(work.topic), offset, now)
        if number % JUDGED == 0:
            self.history.commits.append(commit)
        place, metadata = group_requests.from_outside(group), "m" * work.metadata_bytes
        request = group_requests.commit(place, tp.topic, {tp.partition: offset}, metadata)
        try:
            found = await self.ask_any(group_requests.find_coordinator(group))
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
