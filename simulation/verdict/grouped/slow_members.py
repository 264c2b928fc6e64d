"""**JoinersStay**: a member that has joined in time is one, however long it waited for the others;
and it is none any more if it has not asked for its part in the time that a rebalance may take, but
for a static one that was restarted meanwhile, has come back, and was told that it goes on.

A rebalance may take as long as the slowest member wants (``max.poll.interval.ms``, five minutes in
Kafka's clients), a session is shorter by far; who waits says nothing meanwhile. In plans sessions
and rebalances take equally long, and nobody waits for longer than his session.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode

from simulation.clients.client import Client, beside
from simulation.clients.group_requests import Place, heartbeat, join, sync
from simulation.verdict.grouped.of_members import joins, leaves
from simulation.verdict.refused.words import Word, answered, is_refused, of_whole
from simulation.violation import Violation

INVARIANT: Final = "JoinersStay"
GROUP: Final = "slow"
QUICK, SLOW = "quick", "slow"
SESSION_MS: Final = 1_000
REBALANCE_MS: Final = 10_000
Timeouts: TypeAlias = Mapping[str, int]
SHORT_REBALANCES: Final[Timeouts] = {
    "session_timeout_ms": REBALANCE_MS,
    "rebalance_timeout_ms": SESSION_MS,
}
HEARTBEATS: Final = 6
EVERY_S: Final = 0.35
"""In all two sessions, and less than a client waits for an answer."""


async def check(client: Client) -> None:
    """Raises Violation."""
    timeouts = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
    async with beside(client) as other:
        quick, slow = await _both(client, other, timeouts)
        for place, instance in ((quick, QUICK), (slow, SLOW)):
            parts = {quick.member_id: b"", slow.member_id: b""} if instance == QUICK else {}
            await _is_told(client, "a SyncGroup", place, sync(place, parts, instance))
        waiting = asyncio.ensure_future(answered(other, quick.coordinator, _join(quick, QUICK)))
        for _ in range(HEARTBEATS):
            await asyncio.sleep(EVERY_S)
            beat = heartbeat(slow, SLOW)
            await _is_told(client, "a Heartbeat", slow, beat, ErrorCode.rebalance_in_progress)
        _place(slow, await answered(client, slow.coordinator, _join(slow, SLOW)))
        quick = _place(quick, await waiting)
    await asyncio.sleep(EVERY_S)
    await _is_told(client, "a SyncGroup", quick, sync(quick, {quick.member_id: b""}, QUICK))
    await leaves(client, quick, QUICK, SLOW, invariant=INVARIANT)
    await _silent_ones_go(client)
    await _who_is_back_stays(client)


async def _both(client: Client, other: Client, timeouts: Timeouts) -> tuple[Place, Place]:
    first = await joins(client, GROUP, QUICK, **timeouts)
    joining = asyncio.ensure_future(joins(other, GROUP, SLOW, **timeouts))
    await asyncio.sleep(EVERY_S)
    again = replace(_join(first, QUICK), **timeouts)
    quick = _place(first, await answered(client, first.coordinator, again))
    return quick, await joining


async def _silent_ones_go(client: Client) -> None:
    silent = await joins(client, GROUP, SLOW, **SHORT_REBALANCES)
    await asyncio.sleep(2 * SESSION_MS / 1000)
    gone = ErrorCode.unknown_member_id
    await _is_told(client, "a Heartbeat", silent, heartbeat(silent, SLOW), gone)


async def _who_is_back_stays(client: Client) -> None:
    async with beside(client) as other:
        quick, _ = await _both(client, other, SHORT_REBALANCES)
    await _is_told(client, "a SyncGroup", quick, sync(quick, {quick.member_id: b""}, QUICK))
    back = await joins(client, GROUP, SLOW, **SHORT_REBALANCES)
    await asyncio.sleep(2 * SESSION_MS / 1000)
    await _is_told(client, "a Heartbeat", back, heartbeat(back, SLOW))
    await leaves(client, back, QUICK, SLOW, invariant=INVARIANT)


def _join(place: Place, instance_id: str) -> Any:
    request = join(GROUP, place.member_id, instance_id=instance_id, rebalance_ms=REBALANCE_MS)
    return replace(request, session_timeout_ms=SESSION_MS)


def _place(before: Place, answer: Any) -> Place:
    if answer.error_code is not ErrorCode.none:
        what = f"{answer.error_code.name} to who joins after {before}"
        raise Violation(INVARIANT, f"group {GROUP}: {what}")
    return before._replace(generation=answer.generation_id, member_id=answer.member_id)


async def _is_told(
    client: Client, what: str, place: Place, request: Any, expected: ErrorCode = ErrorCode.none
) -> None:
    word = Word(f"{what} of {place}", place.coordinator, request, of_whole, expected)
    await is_refused(client, word, INVARIANT)
