"""What members of a group may count on, which those of a plan do not come to ask for.

* **LeaderCallsAgain**: a leader that joins again has all others join (topics may have changed).
* **StaticMembersStay**: a static member that was restarted has its place and its partitions again,
  and nobody else has noticed; who is still there under its former id is shut out (KIP-345).
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.types import TopicPartition
from broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from simulation.clients.client import PAUSE_S, Client
from simulation.clients.group_requests import Place, commit, find_coordinator, heartbeat, join, sync
from simulation.verdict.refused.words import Word, answered, is_refused, of_parts, of_whole
from simulation.violation import Violation

STATIC: Final = "StaticMembersStay"
GROUP, INSTANCE = "static", "instance"
PART: Final = b"what it is to read"
ATTEMPTS_MAX: Final = 30
ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


async def leader_calls_again(client: Client, place: Place) -> None:
    """Of a group whose only member, and leader, has this ``place``; raises Violation."""
    answer = await answered(client, place.coordinator, join(place.group, place.member_id))
    told = (answer.error_code, answer.generation_id)
    if told != (ErrorCode.none, place.generation + 1):
        what = f"{told[0].name}, generation {told[1]}, to its leader that joins again"
        raise Violation("LeaderCallsAgain", f"group {place.group}: {what} in {place.generation}")


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


def _fenced(former: Place, tp: TopicPartition) -> Iterator[Word]:
    fenced = ErrorCode.fenced_instance_id
    yield _word("a Heartbeat", former, heartbeat(former, INSTANCE), of_whole, fenced)
    request = commit(former, tp.topic, {tp.partition: 1}, None, INSTANCE)
    yield _word("an OffsetCommit", former, request, of_parts, fenced)


def _word(what: str, place: Place, request: Any, refusals: Any, expected: ErrorCode) -> Word:
    return Word(f"{what} of {place}", place.coordinator, request, refusals, expected)


def leave_group(group: str, *instance_ids: str) -> LeaveGroupRequest:
    """Of static members, as an administrator asks for it."""
    members = tuple(MemberIdentity(member_id="", group_instance_id=each) for each in instance_ids)
    return LeaveGroupRequest(version=3, group_id=group, members=members)


def of_leavers(answer: Any) -> Iterator[ErrorCode]:
    """Of a LeaveGroup, by member."""
    yield answer.error_code
    for member in answer.members:
        yield member.error_code
