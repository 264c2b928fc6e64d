"""What is forgotten when nobody has needed it for long, and what is not.

* **OffsetsExpire**: ``offsets.retention.minutes`` after its last member has left, or after the
  commit where it had none, what a group has committed is gone, and the group with it; of a group
  with members only what nobody subscribes to any more; and whatever is younger is there (KIP-211,
  ``GroupMetadata.removeExpiredOffsets``).
* **ProducersExpire**: a producer whose last batch is ``producer.id.expiration.ms`` old is unknown,
  and may go on with any number; one that is younger is not, however old what it sent before is
  (``ProducerStateManager``).

No plan takes so long. So the clocks of all brokers are put forward, by which both are measured.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.list_groups import ListGroupsRequest
from simulation.clients.batches import encoded, wall_ms
from simulation.clients.client import Client
from simulation.clients.group_requests import Place, commit, subscribed, sync
from simulation.clients.producers import new_producer_id
from simulation.clients.reading import offsets_of
from simulation.verdict import patience
from simulation.verdict.grouped import deleted_groups
from simulation.verdict.grouped.deleted_groups import NOTHING, OFFSET, coordinator_of
from simulation.verdict.grouped.of_members import joins, leaves
from simulation.verdict.led import Led
from simulation.verdict.refused.words import Word, answered, is_refused, of_parts, of_whole
from simulation.verdict.settings import append_time, limits
from simulation.verdict.settings.asked_topics import PATIENCE_S, asked_to_append, of_topic
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

OFFSETS: Final = "OffsetsExpire"
PRODUCERS: Final = "ProducersExpire"
NEVER_JOINED, LEFT, ATTENDED, RECENT = "never-joined", "left", "attended", "recent"
INSTANCE: Final = "instance"
MINUTE_MS: Final = 60_000
LOOKED_S: Final = 1.3
"""Within which a broker has looked."""
SUBSCRIBED, FORMER = TopicPartition(limits.TOPIC, 0), TopicPartition(append_time.TOPIC, 0)
SKIPPED: Final = 7
"""A number that follows none."""

Offsets = Mapping[tuple[str, TopicPartition], int]


class _Producers(NamedTuple):
    """Two ids with their epochs."""

    led: Led
    silent: tuple[int, int]
    """Has sent number 0."""
    young: tuple[int, int]
    """As well, and number 1, which is of a time that is still to come."""


async def check(client: Client, world: Cluster, settings: Mapping[str, str]) -> None:
    """Raises Violation."""
    if "offsets.retention.minutes" not in settings:
        return
    lasts_ms = int(settings["offsets.retention.minutes"]) * MINUTE_MS
    if int(settings["producer.id.expiration.ms"]) != lasts_ms:
        raise ValueError("both are to expire at once")
    member = await _commit_all(client)
    producers = await _produce(client, world, young_ms=lasts_ms)
    all_there = {(NEVER_JOINED, SUBSCRIBED): OFFSET, (LEFT, SUBSCRIBED): OFFSET}
    all_there |= {(ATTENDED, tp): OFFSET for tp in (SUBSCRIBED, FORMER)}
    world.put_clocks_forward(lasts_ms - MINUTE_MS)
    await asyncio.sleep(LOOKED_S)
    await _are_told(client, all_there)
    await _is_known(client, producers.led, producers.silent)
    world.put_clocks_forward(2 * MINUTE_MS)
    await deleted_groups.commit(client, RECENT, SUBSCRIBED)
    left = dict.fromkeys(all_there, NOTHING)
    left |= {(ATTENDED, SUBSCRIBED): OFFSET, (RECENT, SUBSCRIBED): OFFSET}
    await patience.wait(OFFSETS, PATIENCE_S, lambda: _differ(client, left))
    await _is_unknown(client, producers.led, producers.silent)
    await _is_known(client, producers.led, producers.young)
    await leaves(client, member, INSTANCE, invariant=OFFSETS)
    await asyncio.sleep(LOOKED_S)
    await _are_told(client, {key: offset for key, offset in left.items() if offset == OFFSET})
    await _is_gone(client, LEFT)


# --- offsets --------------------------------------------------------------------------------------


async def _commit_all(client: Client) -> Place:
    """The place of the one member that stays."""
    await deleted_groups.commit(client, NEVER_JOINED, SUBSCRIBED)
    known = (subscribed("range", SUBSCRIBED.topic),)
    gone = await joins(client, LEFT, INSTANCE, protocols=known)
    await _commit(client, gone, SUBSCRIBED)
    await leaves(client, gone, INSTANCE, invariant=OFFSETS)
    member = await joins(client, ATTENDED, INSTANCE, protocols=known, session_timeout_ms=MINUTE_MS)
    for tp in (SUBSCRIBED, FORMER):
        await _commit(client, member, tp)
    return member


async def _commit(client: Client, place: Place, tp: TopicPartition) -> None:
    share = sync(place, {place.member_id: b""}, INSTANCE)
    request = commit(place, tp.topic, {tp.partition: OFFSET}, "", INSTANCE)
    for what, said, errors in (("a SyncGroup", share, of_whole), ("a commit", request, of_parts)):
        word = Word(f"{what} of {place}", place.coordinator, said, errors, ErrorCode.none)
        await is_refused(client, word, OFFSETS)


async def _are_told(client: Client, expected: Offsets) -> None:
    why = await _differ(client, expected)
    if why is not None:
        raise Violation(OFFSETS, why)


async def _differ(client: Client, expected: Offsets) -> str | None:
    for (group, tp), offset in expected.items():
        told = await offsets_of(client, await coordinator_of(client, group), group, [tp])
        if told is None or told[tp] != offset:
            return f"group {group} has {told and told[tp]} of {tp} committed, not {offset}"
    return None


async def _is_gone(client: Client, group: str) -> None:
    coordinator = await coordinator_of(client, group)
    if coordinator is None:
        return
    answer = await answered(client, coordinator, ListGroupsRequest(version=2))
    if group in {each.group_id for each in answer.groups}:
        raise Violation(OFFSETS, f"group {group} is listed, and all that it had committed is gone")


# --- producers ------------------------------------------------------------------------------------


async def _produce(client: Client, world: Cluster, young_ms: int) -> _Producers:
    led = await of_topic(world, TopicPartition(limits.LARGE, 0))
    now, ids = wall_ms(), []
    for times_ms in ((now,), (now, now + young_ms)):
        given = await answered(client, led.broker, new_producer_id())
        producer = (given.producer_id, given.producer_epoch)
        for number, timestamp in enumerate(times_ms):
            batch = encoded([b"v"], (*producer, number), times_ms=[timestamp])
            part = await asked_to_append(client, led, batch)
            if ErrorCode.none is not given.error_code or part.error_code is not ErrorCode.none:
                what = f"{given.error_code.name}, {part.error_code.name} to a new producer"
                raise Violation(PRODUCERS, f"{led.tp}: {what}")
        ids.append(producer)
    return _Producers(led, *ids)


async def _is_known(client: Client, led: Led, producer: tuple[int, int]) -> None:
    error = await _skips(client, led, producer)
    if error is not ErrorCode.out_of_order_sequence_number:
        what = f"{error.name} to number {SKIPPED} of producer {producer[0]}, which has sent 0"
        raise Violation(PRODUCERS, f"{led.tp}: {what}")


async def _is_unknown(client: Client, led: Led, producer: tuple[int, int]) -> None:
    async def why() -> str | None:
        error = await _skips(client, led, producer)
        what = f"{led.tp}: {error.name} to producer {producer[0]}, which was silent for so long"
        return None if error is ErrorCode.none else what

    await patience.wait(PRODUCERS, PATIENCE_S, why)


async def _skips(client: Client, led: Led, producer: tuple[int, int]) -> ErrorCode:
    part = await asked_to_append(client, led, encoded([b"v"], (*producer, SKIPPED)))
    error: ErrorCode = part.error_code
    return error
