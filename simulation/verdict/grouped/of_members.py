"""What members of a group may count on, which those of a plan do not come to ask for.

* **LeaderCallsAgain**: a leader that joins again has all others join (topics may have changed);
  also one that is not the first of the members, after another coordinator has loaded them.
* **StaticMembersStay**: a static member that was restarted has its place and its partitions again,
  and nobody else has noticed; who is still there under its former id is shut out (KIP-345).
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from simulation.clients.client import PAUSE_S, Client, beside
from simulation.clients.group_requests import Place, commit, find_coordinator, heartbeat, join, sync
from simulation.verdict.refused.words import Word, answered, is_refused, of_parts, of_whole
from simulation.violation import Violation

STATIC: Final = "StaticMembersStay"
GROUP, INSTANCE = "static", "instance"
PART: Final = b"what it is to read"
CALLS: Final = "LeaderCallsAgain"
LEADER, OTHER = "leader", "other"
PAIRED_MS: Final = 60_000
"""Their session: another coordinator needs some seconds."""
SKIPS_SINCE: Final = 9
"""Who leads and comes back is told that it need not assign, and who does not lead is not."""
CALLED_S: Final = 0.35
"""Within which who joins is known to."""
ATTEMPTS_MAX: Final = 30
ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


async def leader_calls_again(client: Client, place: Place) -> None:
    """Of a group whose only member, and leader, has this ``place``: it says something else at
    first, and then the same. Raises Violation."""
    for _ in range(2):
        answer = await answered(client, place.coordinator, join(place.group, place.member_id))
        told = (answer.error_code, answer.generation_id)
        if told != (ErrorCode.none, place.generation + 1):
            what = f"{told[0].name}, generation {told[1]}, to its leader that joins again"
            raise Violation(CALLS, f"group {place.group}: {what} in {place.generation}")
        place = place._replace(generation=answer.generation_id)
        share = sync(place, {place.member_id: PART})
        await is_refused(client, _taken("a SyncGroup", place, share), CALLS)


async def static_member_stays(client: Client, tp: TopicPartition) -> None:
    """Raises Violation."""
    first = await _joins(client)
    await _has_its_part(client, first, PART)
    again = await _joins(client)
    if again.member_id == first.member_id or again.generation != first.generation:
        raise Violation(STATIC, f"{again} came back as {first}")
    for word in _fenced(first, tp):
        await is_refused(client, word, STATIC)
    await _has_its_part(client, again, b"")
    await leaves(client, again, INSTANCE, invariant=STATIC)
    gone = _word(
        "a Heartbeat", again, heartbeat(again, INSTANCE), of_whole, ErrorCode.unknown_member_id
    )
    await is_refused(client, gone, STATIC)


async def _joins(client: Client) -> Place:
    return await joins(client, GROUP, INSTANCE)


async def joins(client: Client, group: str, instance_id: str, **changed: Any) -> Place:
    """A static member. ``changed``: fields of its JoinGroup that are another one's. Without a
    controller leaderships may be on their way back to who is preferred."""
    request = replace(join(group, "", instance_id=instance_id), **changed)
    for attempt in count():
        found = await client.ask_any(find_coordinator(group))
        error: ErrorCode = found.error_code
        if error is ErrorCode.none:
            answer = await answered(client, found.node_id, request)
            error = answer.error_code
        if error is ErrorCode.none:
            return Place(found.node_id, group, answer.generation_id, answer.member_id)
        if error not in ASK_AGAIN or attempt > ATTEMPTS_MAX:
            break
        await asyncio.sleep(PAUSE_S)
    raise Violation(STATIC, f"{error.name} to {instance_id}, which joins group {group}")


async def leaves(client: Client, place: Place, *instances: str, invariant: str) -> None:
    """Static members of the group that has this ``place``; raises Violation of the invariant."""
    request = leave_group(place.group, *instances)
    word = _word(f"a LeaveGroup of {instances}", place, request, of_leavers, ErrorCode.none)
    await is_refused(client, word, invariant)


async def _has_its_part(client: Client, place: Place, assigned: bytes) -> None:
    """``assigned``: by itself, which counts only in a generation that is new."""
    request = sync(place, {place.member_id: assigned}, INSTANCE)
    answer = await answered(client, place.coordinator, request)
    if answer.error_code is not ErrorCode.none or answer.assignment != PART:
        raise Violation(STATIC, f"{answer.error_code.name}, {answer.assignment!r} to {place}")


class Pair(NamedTuple):
    """Of static members: who leads was restarted, and stands behind the other one."""

    leader: Place
    other: Place


async def paired(client: Client, group: str) -> Pair:
    """In a group of their own; raises Violation."""
    first = await _joins_pair(client, group, LEADER)
    async with beside(client) as another:
        joining = asyncio.ensure_future(_joins_pair(another, group, OTHER))
        await asyncio.sleep(CALLED_S)
        first = await _joins_pair(client, group, LEADER, first.member_id)
        other = await joining
    parts = {first.member_id: PART, other.member_id: PART}
    for place, instance, assigned in ((first, LEADER, parts), (other, OTHER, {})):
        beat, request = heartbeat(place, instance), sync(place, assigned, instance)
        await is_refused(client, _taken("a Heartbeat", place, beat), CALLS)
        await is_refused(client, _taken("a SyncGroup", place, request), CALLS)
    other = await _joins_pair(client, group, OTHER, version=SKIPS_SINCE)
    return Pair(await _joins_pair(client, group, LEADER), other)


async def called_again(client: Client, pair: Pair, coordinator: int) -> None:
    """By whoever leads, once that broker has loaded their group; raises Violation."""
    leader, other = (place._replace(coordinator=coordinator) for place in pair)
    for place, instance in ((leader, LEADER), (other, OTHER)):
        request = heartbeat(place, instance)
        await is_refused(client, _taken("a Heartbeat", place, request), CALLS)
    async with beside(client) as another:
        calling = asyncio.ensure_future(
            _joins_pair(another, leader.group, LEADER, leader.member_id)
        )
        await asyncio.sleep(CALLED_S)
        called, request = ErrorCode.rebalance_in_progress, heartbeat(other, OTHER)
        await is_refused(client, _word("a Heartbeat", other, request, of_whole, called), CALLS)
        again = await _joins_pair(client, other.group, OTHER, other.member_id)
        await calling
    await leaves(client, again, LEADER, OTHER, invariant=CALLS)


async def _joins_pair(
    client: Client, group: str, instance: str, member_id: str = "", version: int = 5
) -> Place:
    return await joins(
        client, group, instance, member_id=member_id, version=version,
        session_timeout_ms=PAIRED_MS, rebalance_timeout_ms=PAIRED_MS,
    )  # fmt: skip


def _taken(what: str, place: Place, request: Any) -> Word:
    return _word(what, place, request, of_whole, ErrorCode.none)


def _fenced(former: Place, tp: TopicPartition) -> Iterator[Word]:
    fenced = ErrorCode.fenced_instance_id
    yield _word("a Heartbeat", former, heartbeat(former, INSTANCE), of_whole, fenced)
    request = commit(former, tp.topic, {tp.partition: 1}, None, INSTANCE)
    yield _word("an OffsetCommit", former, request, of_parts, fenced)
    yield _word("a SyncGroup", former, sync(former, {}, INSTANCE), of_whole, fenced)
    known = join(former.group, former.member_id, instance_id=INSTANCE)
    yield _word("a JoinGroup", former, known, of_whole, fenced)
    leaver = MemberIdentity(member_id=former.member_id, group_instance_id=INSTANCE)
    left = LeaveGroupRequest(version=3, group_id=former.group, members=(leaver,))
    yield _word("a LeaveGroup", former, left, _of_each, fenced)


def _word(what: str, place: Place, request: Any, refusals: Any, expected: ErrorCode) -> Word:
    return Word(f"{what} of {place}", place.coordinator, request, refusals, expected)


def leave_group(group: str, *instance_ids: str) -> LeaveGroupRequest:
    """Of static members, as an administrator asks for it."""
    members = tuple(MemberIdentity(member_id="", group_instance_id=each) for each in instance_ids)
    return LeaveGroupRequest(version=3, group_id=group, members=members)


def _of_each(answer: Any) -> Iterator[ErrorCode]:
    return (member.error_code for member in answer.members)


def of_leavers(answer: Any) -> Iterator[ErrorCode]:
    """Of a LeaveGroup, by member."""
    yield answer.error_code
    for member in answer.members:
        yield member.error_code
