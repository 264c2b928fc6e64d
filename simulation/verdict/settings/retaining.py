"""**RetentionTakes**: what is too old or too much goes, on every replica, and nothing else.

Of a plan's topics RetentionKept says what retention must leave; a log of which it takes nothing is
just as well kept there. So segments are made of records whose times are known. A segment goes when
its youngest record is older than ``retention.ms``, the last one too, and when those behind it are
``retention.bytes`` (``UnifiedLog.deleteOldSegments``); what is ``segment.ms`` younger than its
first record is in another one, however old the one before it is. A broker that was away knows how
old its segments are.

* **TimesListed**: of what is left who asks for a time is told of the first record that is not
  older, and when that was, wherever it stands in its batch; of none where there is none (KIP-79).
  The first of the youngest is told to who asks for it (KIP-734), and that the log begins here
  (KIP-405) and nowhere else (KIP-1005).
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded, wall_ms
from simulation.clients.client import Client
from simulation.clients.reading import fetch, list_offsets
from simulation.plans.actions import AlterTopic, Stop, Who
from simulation.verdict import patience
from simulation.verdict.led import Led
from simulation.verdict.promised.deleting import delete_records
from simulation.verdict.refused.words import answered
from simulation.verdict.settings.asked_topics import PATIENCE_S, appended, made
from simulation.verdict.settling import Cluster, settle
from simulation.violation import Violation

INVARIANT: Final = "RetentionTakes"
LISTED: Final = "TimesListed"
AGED, LARGE, STEPPED, REOPENED = "aged", "much", "stepped", "reopened"
RETENTION_MS: Final = 600_000
YOUNGER_MS: Final = 60_000
SEGMENT_BYTES: Final = 200
"""For two batches of one record each, and not for three."""
SEGMENTS_LEFT: Final = 3
LOOKED_AT: Final = "log.retention.check.interval.ms"
SELDOM_MS: Final = 30_000
MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -3, -4, -5
"""What ListOffsets takes in place of a time."""
NONE: Final = (-1, -1)
DOWN_MS: Final = 500


async def check(
    client: Client, administrator: Administrator, world: Cluster, settings: Mapping[str, str]
) -> None:
    """Raises Violation. Where brokers look whether anything is too old every few minutes, as they
    do by default, nothing is waited for."""
    segments = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "0"}
    # Kept until all is there: with one of two records of a segment, the other gets one of its own.
    aged = {**segments, "retention.ms": "-1", "segment.ms": str(YOUNGER_MS)}
    mixed, old, parted = await made(administrator, world, AGED, aged, partitions=3)
    now = wall_ms() // 1000 * 1000
    gone, young = now - RETENTION_MS - YOUNGER_MS, now - RETENTION_MS + YOUNGER_MS
    one = len(encoded([b"v"]))
    much = {**segments, "retention.bytes": str(SEGMENTS_LEFT * 2 * one)}
    (large,) = await made(administrator, world, LARGE, much)
    stepwise = {name: aged[name] for name in ("retention.ms", "segment.ms")}
    (stepped,) = await made(administrator, world, STEPPED, stepwise)
    two_thirds = YOUNGER_MS * 2 // 3
    await _append_each(client, mixed, [gone, gone, young, gone, young, gone, young])
    await _append_each(client, stepped, [gone, gone + two_thirds, gone + 2 * two_thirds])
    await _append_each(client, old, [gone] * 3)
    await _append_each(client, parted, [gone, young])
    await _append_each(client, large, [now] * 10)
    for topic in (AGED, STEPPED):
        await _is_kept(administrator, topic)
    if int(settings.get(LOOKED_AT, SELDOM_MS)) >= SELDOM_MS:
        return
    begins = {mixed: 2, old: 3, parted: 1, stepped: 2, large: 10 - SEGMENTS_LEFT * 2}
    await _begin_at(world, begins)
    await _is_gone(client, large)
    await _are_listed(client, mixed, gone, young)
    (reopened,) = await made(administrator, world, REOPENED, {**segments, "retention.ms": "-1"})
    await _append_each(client, reopened, [gone, gone, young, gone, young, gone, young])
    await _is_away(world, reopened.broker)
    await _is_kept(administrator, REOPENED)
    await _begin_at(world, {reopened: 2})


async def _is_kept(administrator: Administrator, topic: str) -> None:
    """For so long, from now on."""
    kept = AlterTopic(topic=topic, name="retention.ms", value=str(RETENTION_MS))
    await patience.obeyed(administrator, kept)


async def _append_each(client: Client, led: Led, times_ms: Iterable[int]) -> None:
    """A batch of one record of each time."""
    for timestamp in times_ms:
        await appended(client, led, encoded([b"v"], times_ms=[timestamp]))


async def _begin_at(world: Cluster, expected: dict[Led, int]) -> None:
    async def why() -> str | None:
        for led, start in expected.items():
            partition = world.observer.find(led.tp)
            for broker in partition.isr if partition is not None else ():
                replica = world.hosted(broker, led.tp)
                there = -1 if replica is None else replica.log.log_start_offset
                if there != start:
                    return f"{led.tp} is to begin at {start}, on broker {broker} it does at {there}"
        return None

    await patience.wait(INVARIANT, PATIENCE_S, why)


async def _is_away(world: Cluster, broker: int) -> None:
    world.strike(Stop(who=Who(broker=broker), down_ms=DOWN_MS))
    await asyncio.sleep(DOWN_MS / 1000)
    await settle(world)


async def _is_gone(client: Client, led: Led) -> None:
    answer = await fetch(client, led.broker, led.tp, led.start - 1)
    if answer.error_code is not ErrorCode.offset_out_of_range:
        what = f"{answer.error_code.name} to who reads what retention took"
        raise Violation(INVARIANT, f"{led.tp}, which begins at {led.start}: {what}")


async def _are_listed(client: Client, led: Led, gone: int, young: int) -> None:
    """Records 2 to 6 are there: young, gone, young, gone, young. Three more come in one batch, and
    some behind them; and then the first of the three is deleted, and the youngest of them."""
    first, middle, last = young + 1_000, young + 2_000, young + 3_000
    three = await appended(client, led, encoded([b"v"] * 3, times_ms=[first, last, middle]))
    await _append_each(client, led, [young] * 3)
    base = three.base_offset
    expected = {
        gone: (2, young),
        young: (2, young),
        young + 1: (base, first),
        first + 1: (base + 1, last),
        last: (base + 1, last),
        last + 1: NONE,
        MAX_TIMESTAMP: (base + 1, last),
        EARLIEST_LOCAL: (2, -1),
        LATEST_TIERED: NONE,
    }
    for timestamp, offset_and_time in expected.items():
        await _is_listed(client, led, timestamp, offset_and_time)
    await answered(client, led.broker, delete_records(led.tp, base + 1))
    await _is_listed(client, led, gone, (base + 1, last))
    await answered(client, led.broker, delete_records(led.tp, base + 2))
    await _is_listed(client, led, MAX_TIMESTAMP, (base + 2, middle))


async def _is_listed(client: Client, led: Led, timestamp: int, expected: tuple[int, int]) -> None:
    answer = await answered(client, led.broker, list_offsets(led.tp, timestamp, version=9))
    ((part,),) = [topic.partitions for topic in answer.topics]
    told = (part.offset, part.timestamp)
    if part.error_code is not ErrorCode.none or told != expected:
        what = f"{part.error_code.name}, {told} to who asks for {timestamp}"
        raise Violation(LISTED, f"{led.tp}: {what}; it is {expected}")
