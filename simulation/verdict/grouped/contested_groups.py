"""**DeletedOrKept**: of a commit and the deletion of its group, asked at the same time, one is
carried out after the other: what was committed when the group could not be deleted is there.

Nobody deletes in the course of a plan, so no commit meets a deletion there; and for that there are
the few ms in which tombstones are stored.
"""

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.delete_groups import DeleteGroupsRequest
from simulation.clients import group_requests
from simulation.clients.client import Client, beside
from simulation.clients.reading import offsets_of
from simulation.verdict.grouped.deleted_groups import NOTHING, coordinator_of
from simulation.verdict.grouped.of_members import ASK_AGAIN
from simulation.verdict.refused.words import answered
from simulation.violation import Violation

INVARIANT: Final = "DeletedOrKept"
LATER_S: Final = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, -0.0001, -0.0002, -0.0005)
"""How long after the deletion the commit is sent; or before it, as the group's first."""
FORMER, LATTER = 1, 2


async def check(client: Client, tp: TopicPartition) -> None:
    """Raises Violation."""
    async with beside(client) as other:
        for number, later_s in enumerate(LATER_S):
            await _deleted_or_kept(client, other, f"contested-{number}", tp, later_s)


async def _deleted_or_kept(
    client: Client, other: Client, group: str, tp: TopicPartition, later_s: float
) -> None:
    coordinator = await coordinator_of(client, group)
    if coordinator is None or await coordinator_of(other, group) != coordinator:
        return
    is_known = later_s >= 0
    if is_known and await _commits(client, coordinator, group, tp, FORMER) is not ErrorCode.none:
        return
    deleted, committed = await asyncio.gather(
        _deletes(client, coordinator, group, max(-later_s, 0)),
        _commits(other, coordinator, group, tp, LATTER, max(later_s, 0)),
    )
    told = await offsets_of(client, coordinator, group, [tp])
    if told is None or ASK_AGAIN & {deleted, committed}:
        return
    is_deleted, is_committed = deleted is ErrorCode.none, committed is ErrorCode.none
    possible = {LATTER} if is_committed else {NOTHING}
    if is_deleted and is_committed:
        possible = {LATTER, NOTHING}
    if told[tp] not in possible or not (is_deleted or is_committed):
        what = f"{deleted.name} to who deletes it, {committed.name} to who commits {LATTER}"
        raise Violation(INVARIANT, f"group {group}: {what}, and {told[tp]} is committed")


async def _deletes(client: Client, coordinator: int, group: str, later_s: float) -> ErrorCode:
    await asyncio.sleep(later_s)
    request = DeleteGroupsRequest(version=1, groups_names=(group,))
    answer = await answered(client, coordinator, request)
    error: ErrorCode = answer.results[0].error_code
    return error


async def _commits(
    client: Client,
    coordinator: int,
    group: str,
    tp: TopicPartition,
    offset: int,
    later_s: float = 0,
) -> ErrorCode:
    await asyncio.sleep(later_s)
    place = group_requests.from_outside(group)
    request = group_requests.commit(place, tp.topic, {tp.partition: offset})
    answer = await answered(client, coordinator, request)
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error
