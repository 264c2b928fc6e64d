"""What a consumer asks of an answer when it fetches.

* **FetchLimitsKept**: whole batches from where it asked, no more bytes than it asked for, of one
  partition and of all; but the first batch of all that there is, however large, so that it gets on
  (KIP-74).
* **FetchWaits**: with less than ``min_bytes`` it waits, and no longer than ``max_wait_ms``; what
  comes meanwhile is told as soon as there is enough.
* **FetchTellsOffsets**: where the log begins and what is committed is what its leader goes by; who
  is refused is told neither.

Good consumers ask for a megabyte, of which a log here has a fraction: so it is asked on purpose
when all is over.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, parse_batches
from ackproof.broker.wire.messages.fetch import PartitionData
from simulation.clients.batches import encoded
from simulation.clients.client import Client, beside
from simulation.clients.fetch_requests import AMPLE, Limits, fetch_request
from simulation.model.observer import Observer
from simulation.verdict.led import Hosted, Led, led
from simulation.verdict.refused.invalid import produce
from simulation.verdict.refused.words import answered
from simulation.violation import Violation

LIMITS: Final = "FetchLimitsKept"
WAITS: Final = "FetchWaits"
OFFSETS: Final = "FetchTellsOffsets"
BITES_MAX: Final = 12
WAIT_MS: Final = 1_000
AT_ONCE_S: Final = 0.3
"""For the way there and back, and an append that all of the ISR has."""


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Of the partition with the longest log, and of all that its leader leads; raises Violation."""
    all_led = led(observer, hosted)
    if not all_led:
        return
    most = max(all_led, key=lambda each: each.end - each.start)
    for limits in (
        Limits(max_bytes=1),
        Limits(partition_max_bytes=1),
        Limits(max_bytes=200),
        Limits(partition_max_bytes=200),
    ):
        await _bite_by_bite(client, most, limits)
    others = [each for each in all_led if each.broker == most.broker]
    await _of_several(client, others)
    await _offsets_are_told(client, most)
    await _nothing_is_waited_for(client, most)
    await _news_is_told(client, most)
    await _less_than_enough_is_told(client, most)
    await _news_is_counted(client, others, most)


# --- sizes ----------------------------------------------------------------------------------------


async def _bite_by_bite(client: Client, led: Led, limits: Limits) -> None:
    at, smallest = led.start, min(limits.max_bytes, limits.partition_max_bytes)
    for _ in range(BITES_MAX):
        if at >= led.end:
            return
        told = await _fetch(client, [(led, at)], limits)
        if _is_gone(told):
            return
        batches = _batches(told[0])
        _follow_on(led, at, batches)
        _is_small_enough(led.tp, batches, smallest)
        at = batches[-1].next_offset


async def _of_several(client: Client, led: Sequence[Led]) -> None:
    """The first that has anything is served, whatever is left of the limit for others."""
    asked = [(each, each.start) for each in led if each.start < each.end]
    for max_bytes in (1, 300):
        told = await _fetch(client, asked, Limits(max_bytes=max_bytes))
        if not asked or _is_gone(told):
            return
        _follow_on(*asked[0], _batches(told[0]))
        for (each, at), part in zip(asked, told, strict=True):
            if batches := _batches(part):
                _follow_on(each, at, batches)
        _is_small_enough(asked[0][0].tp, _all(told), max_bytes)


def _follow_on(led: Led, at: int, batches: Sequence[RecordBatch]) -> None:
    if not batches:
        raise Violation(LIMITS, f"{led.tp}: nothing is told from {at} on, up to {led.end} there is")
    first = batches[0]
    expected = at if first.base_offset > at or first.next_offset <= at else first.base_offset
    for batch in batches:
        if batch.base_offset != expected:
            what = f"from {at} on {batch.base_offset} is told where {expected} was to follow"
            raise Violation(LIMITS, f"{led.tp}: {what}")
        expected = batch.next_offset


def _is_small_enough(tp: TopicPartition, batches: Sequence[RecordBatch], limit: int) -> None:
    size = sum(batch.size for batch in batches)
    if size > limit and len(batches) > 1:
        what = f"{size} bytes in {len(batches)} batches where {limit} were asked for"
        raise Violation(LIMITS, f"{tp}: {what}")


# --- offsets --------------------------------------------------------------------------------------


async def _offsets_are_told(client: Client, led: Led) -> None:
    (told,) = await _fetch(client, [(led, led.end)], Limits())
    expected = (led.end, led.start)
    if (told.high_watermark, told.log_start_offset) != expected:
        what = f"watermark {told.high_watermark}, start {told.log_start_offset}; it goes by"
        raise Violation(OFFSETS, f"{led.tp}: its leader tells a consumer {what} {expected}")
    (told,) = await _fetch(client, [(led, led.end + 7)], Limits())
    offsets = (told.high_watermark, told.log_start_offset)
    if told.error_code is not ErrorCode.offset_out_of_range or offsets != (-1, -1):
        what = f"{told.error_code.name}, {offsets} to who asks for {led.end + 7} of {led.end}"
        raise Violation(OFFSETS, f"{led.tp}: its leader tells {what}")


# --- times ----------------------------------------------------------------------------------------


async def _nothing_is_waited_for(client: Client, led: Led) -> None:
    began, limits = _now(), Limits(min_bytes=1, max_wait_ms=WAIT_MS)
    (told,) = await _fetch(client, [(led, led.end)], limits)
    waited = _now() - began
    if _batches(told) or not WAIT_MS / 1000 <= waited <= WAIT_MS / 1000 + AT_ONCE_S:
        what = f"nothing new, and the answer came after {waited:.3f} s"
        raise Violation(WAITS, f"{led.tp}: {what}, asked to wait for {WAIT_MS} ms")


async def _news_is_told(client: Client, led: Led) -> None:
    began, at = _now(), led.end
    limits = Limits(min_bytes=1, max_wait_ms=WAIT_MS)
    (told,) = await _meanwhile(client, [(led, at)], limits)
    if not _batches(told) or _now() - began > WAIT_MS / 2000 + AT_ONCE_S:
        what = f"appended after {WAIT_MS / 2000:.1f} s, told after {_now() - began:.3f} s"
        raise Violation(WAITS, f"{led.tp}: what came at {at} was {what}")


async def _less_than_enough_is_told(client: Client, led: Led) -> None:
    """One batch is there, and another comes: both are less than what is waited for, and the first
    is as much as may be told."""
    at = led.end - 1
    if at < led.start:
        return
    limits = Limits(max_bytes=1, min_bytes=AMPLE, max_wait_ms=WAIT_MS)
    batches = _all(await _meanwhile(client, [(led, at)], limits))
    _follow_on(led, at, batches)
    _is_small_enough(led.tp, batches, limits.max_bytes)


async def _news_is_counted(client: Client, led: Sequence[Led], full: Led) -> None:
    """One partition has as much as may be told, and another one's record comes."""
    for other in led:
        if other.tp != full.tp and full.start < full.end:
            limits = Limits(max_bytes=1, min_bytes=AMPLE, max_wait_ms=WAIT_MS)
            asked = [(full, full.end - 1), (other, other.end)]
            told = await _meanwhile(client, asked, limits)
            _is_small_enough(full.tp, _all(told), limits.max_bytes)
            return


async def _meanwhile(
    client: Client, asked: Sequence[tuple[Led, int]], limits: Limits
) -> list[PartitionData]:
    """The answer, where the last one asked for gets a record when half of the wait is over."""
    (led, _), fetching = asked[-1], asyncio.ensure_future(_fetch(client, asked, limits))
    try:
        await asyncio.sleep(limits.max_wait_ms / 2000)
        async with beside(client) as other:
            await answered(other, led.broker, produce(led.tp, 1, encoded([b"news"])))
        return await fetching
    finally:
        fetching.cancel()


# --- asking ---------------------------------------------------------------------------------------


async def _fetch(
    client: Client, asked: Iterable[tuple[Led, int]], limits: Limits
) -> list[PartitionData]:
    """In one request, of partitions with the same leader, in their order."""
    asked = list(asked)
    if not asked:
        return []
    request = fetch_request(((led.tp, at) for led, at in asked), limits)
    answer: Any = await answered(client, asked[0][0].broker, request)
    parts = {
        TopicPartition(topic.topic, part.partition_index): part
        for topic in answer.responses
        for part in topic.partitions
    }
    return [parts[led.tp] for led, _ in asked]


def _is_gone(told: Iterable[PartitionData]) -> bool:
    """Retention was faster than the reader."""
    return any(part.error_code is ErrorCode.offset_out_of_range for part in told)


def _batches(part: PartitionData) -> list[RecordBatch]:
    try:
        return list(parse_batches(part.records or b""))
    except CorruptBatch as error:
        raise Violation(
            LIMITS, f"what is told of {part.partition_index} is cut: {error}"
        ) from error


def _all(told: Iterable[PartitionData]) -> list[RecordBatch]:
    return [batch for part in told for batch in _batches(part)]


def _now() -> float:
    return asyncio.get_running_loop().time()
