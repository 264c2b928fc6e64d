"""**AppendTimeCounts**: with ``message.timestamp.type=LogAppendTime`` a record has the time of its
append: its producer is told so, its readers too, and who asks for that time finds
it (KIP-32, ``LogValidator``). How old the producer says it is matters as little as how old it may
be. A repetition is told when it was first appended (``UnifiedLog.append``).

When the setting changes, the producer's time counts again, and so do its limits. No topic of a plan
is set so: all that is read there is judged by its producers' times.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, TimestampType, parse_batches
from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded, wall_ms
from simulation.clients.client import Client
from simulation.clients.producers import new_producer_id
from simulation.clients.reading import fetch, list_offset
from simulation.plans.actions import AlterTopic
from simulation.verdict import patience
from simulation.verdict.led import Led
from simulation.verdict.refused.words import answered
from simulation.verdict.settings.asked_topics import (
    PATIENCE_S,
    appended,
    asked_to_append,
    made,
)
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

INVARIANT: Final = "AppendTimeCounts"
TOPIC: Final = "stamped"
LIMIT_MS: Final = 10_000
LONG_AGO_MS: Final = 3_600_000
TYPE: Final = "message.timestamp.type"
NO_TIME: Final = -1
A_MOMENT_S: Final = 0.01


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Raises Violation."""
    limit = {"message.timestamp.before.max.ms": str(LIMIT_MS)}
    (led,) = await made(administrator, world, TOPIC, {TYPE: "LogAppendTime", **limit})
    old = encoded([b"a", b"b"], times_ms=[wall_ms() - LONG_AGO_MS] * 2)
    began, part = wall_ms(), await appended(client, led, old)
    if not began <= part.log_append_time_ms <= wall_ms():
        what = f"appended from {began} to {wall_ms()} ms, told {part.log_append_time_ms}"
        raise Violation(INVARIANT, f"{led.tp}: {what}")
    await _is_read(client, led, part)
    await _is_found(client, led, part)
    await _repetition_is_told_the_first(client, led)
    await _producers_time_counts_again(client, administrator, led)


async def _is_read(client: Client, led: Led, told: Any) -> None:
    (batch,) = await _batches(client, led, told.base_offset)
    there = (batch.timestamp_type, batch.max_timestamp)
    if there != (TimestampType.LOG_APPEND_TIME, told.log_append_time_ms):
        what = f"the producer was told {told.log_append_time_ms}, readers get {there}"
        raise Violation(INVARIANT, f"{led.tp}: {what}")


async def _batches(client: Client, led: Led, offset: int) -> Sequence[RecordBatch]:
    answer = await fetch(client, led.broker, led.tp, offset)
    try:
        return parse_batches(answer.records or b"")
    except CorruptBatch as error:
        raise Violation(INVARIANT, f"{led.tp}: what is read from {offset} on: {error}") from error


async def _is_found(client: Client, led: Led, told: Any) -> None:
    at = told.log_append_time_ms
    for timestamp, expected in ((at, told.base_offset), (at + 1, NO_TIME)):
        found = await list_offset(client, led.broker, led.tp, timestamp)
        if found != expected:
            what = f"for {timestamp} the leader tells {found}, appended at {at} is {expected}"
            raise Violation(INVARIANT, f"{led.tp}: {what}")


async def _repetition_is_told_the_first(client: Client, led: Led) -> None:
    given = await answered(client, led.broker, new_producer_id())
    if given.error_code is not ErrorCode.none:
        return
    batch = encoded([b"v"], (given.producer_id, given.producer_epoch, 0))
    first = await appended(client, led, batch)
    await asyncio.sleep(A_MOMENT_S)
    again = await appended(client, led, batch)
    told = [(part.base_offset, part.log_append_time_ms) for part in (first, again)]
    if told[0] != told[1]:
        what = f"{told[1]} is told of a repetition, {told[0]} of what it repeats"
        raise Violation(INVARIANT, f"{led.tp}: offset and time {what}")


async def _producers_time_counts_again(
    client: Client, administrator: Administrator, led: Led
) -> None:
    await patience.obeyed(administrator, AlterTopic(topic=TOPIC, name=TYPE, value="CreateTime"))

    async def why() -> str | None:
        part = await asked_to_append(client, led, encoded([b"v"]))
        told = (part.error_code, part.log_append_time_ms)
        expected = (ErrorCode.none, NO_TIME)
        return None if told == expected else f"{led.tp}, set to CreateTime: {told} is told"

    await patience.wait(INVARIANT, PATIENCE_S, why)
    old = encoded([b"v"], times_ms=[wall_ms() - LONG_AGO_MS])
    part = await asked_to_append(client, led, old)
    if part.error_code is not ErrorCode.invalid_timestamp:
        what = f"a record {LONG_AGO_MS} ms old is answered {part.error_code.name}"
        raise Violation(INVARIANT, f"{led.tp}, which takes none older than {LIMIT_MS} ms: {what}")
