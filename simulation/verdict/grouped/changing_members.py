"""**LeaderIsShown**: who leads is shown each member's own and newest word in the protocol that the
group has: a member of it that says something else has the others join again, in a generation that
is settled and in one that has only begun.

A consumer subscribes to another topic: it joins again under its id, and whoever leads is to share
that out, too. And a static member that was restarted and leads is told so only if it knows that it
need not assign (KIP-814); another one would assign by what it was shown.

Members of a plan say at most whether they read something, and most of them read nothing else.
"""

import asyncio
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.messages.join_group import JoinGroupRequestProtocol
from simulation.clients.client import Client, beside
from simulation.clients.group_requests import Place, heartbeat, join
from simulation.verdict.grouped.of_members import (
    CALLED_S,
    LEADER,
    OTHER,
    PAIRED_MS,
    SKIPS_SINCE,
    leaves,
    paired,
)
from simulation.verdict.refused.words import Word, answered, is_refused, of_whole
from simulation.violation import Violation

INVARIANT: Final = "LeaderIsShown"
GROUP: Final = "changing"
AGREED, OWN = "share", "own"


async def check(client: Client) -> None:
    """Raises Violation."""
    leader, other = await paired(client, GROUP)
    for version in (SKIPS_SINCE, SKIPS_SINCE - 1):
        leader = await _comes_back(client, leader, version)
    for said in (b"settled", b"begun"):
        leader, other = await _changes(client, leader, other, said)
    await leaves(client, leader, LEADER, OTHER, invariant=INVARIANT)


async def _comes_back(client: Client, leader: Place, version: int) -> Place:
    """Restarted, and says what it said."""
    request = replace(_join(leader, LEADER), member_id="", version=version)
    told = await answered(client, leader.coordinator, request)
    knows = version >= SKIPS_SINCE
    is_so = told.error_code is ErrorCode.none and told.generation_id == leader.generation
    if not is_so or (told.leader == told.member_id, bool(told.members)) != (knows, knows):
        what = f"{told} to its leader, which is back and speaks version {version}"
        raise Violation(INVARIANT, f"group {GROUP}: {what}")
    return leader._replace(member_id=told.member_id)


async def _changes(client: Client, leader: Place, other: Place, said: bytes) -> tuple[Place, Place]:
    """The ``other`` one has that to say from now on. Both places then."""
    own = (_protocol(OWN, b"no matter"), _protocol(AGREED, said))
    async with beside(client) as another:
        request = replace(_join(other, OTHER), protocols=own)
        changing = asyncio.ensure_future(answered(another, other.coordinator, request))
        await asyncio.sleep(CALLED_S)
        called, beat = ErrorCode.rebalance_in_progress, heartbeat(leader, LEADER)
        what = f"a Heartbeat of {leader}, when another one says {said!r},"
        word = Word(what, leader.coordinator, beat, of_whole, called)
        await is_refused(client, word, INVARIANT)
        told = await answered(client, leader.coordinator, _join(leader, LEADER))
        await changing
    shown = {each.member_id: (each.group_instance_id, each.metadata) for each in told.members}
    due = {leader.member_id: (LEADER, AGREED.encode()), other.member_id: (OTHER, said)}
    if shown != due:
        raise Violation(INVARIANT, f"group {GROUP}: {shown} to who leads it, due is {due}")
    generation = told.generation_id
    return leader._replace(generation=generation), other._replace(generation=generation)


def _join(place: Place, instance: str) -> Any:
    request = join(place.group, place.member_id, instance_id=instance, rebalance_ms=PAIRED_MS)
    return replace(request, session_timeout_ms=PAIRED_MS)


def _protocol(name: str, metadata: bytes) -> JoinGroupRequestProtocol:
    return JoinGroupRequestProtocol(name=name, metadata=metadata)
