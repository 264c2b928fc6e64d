"""**LimitsKept**: what a topic limits is taken up to the limit, and no further.

``max.message.bytes`` and ``segment.bytes`` of a batch (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE),
``message.timestamp.before.max.ms`` and ``after.max.ms`` of each of its records, which are, where
they are not set, ``message.timestamp.difference.max.ms`` (KIP-937, ``LogConfig``): whoever looks at
the first record alone, or at the last, takes what makes a segment live for ever.
"""

from collections.abc import Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded, wall_ms
from simulation.clients.client import Client
from simulation.verdict.settings.asked_topics import asked_to_append, made
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

INVARIANT: Final = "LimitsKept"
TOPIC: Final = "limited"
BYTES_MAX: Final = 300
SEGMENT_BYTES: Final = 400
BEFORE_MS: Final = 60_000
DIFFERENCE_MS: Final = 20_000
MARGIN_MS: Final = 5_000
"""More than it takes to ask."""

LARGE: Final = "large"
"""Another one, whose segments are smaller than its batches may be."""

Asked = tuple[str, bytes, ErrorCode]


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Raises Violation."""
    config = {
        "max.message.bytes": str(BYTES_MAX),
        "message.timestamp.before.max.ms": str(BEFORE_MS),
        "message.timestamp.difference.max.ms": str(DIFFERENCE_MS),
    }
    larger = {"max.message.bytes": str(SEGMENT_BYTES * 2), "segment.bytes": str(SEGMENT_BYTES)}
    for topic, limits, asked in (
        (TOPIC, config, (*_sizes(BYTES_MAX, ErrorCode.message_too_large), *_times())),
        (LARGE, larger, _sizes(SEGMENT_BYTES, ErrorCode.record_list_too_large)),
    ):
        (led,) = await made(administrator, world, topic, limits)
        for what, records, expected in asked:
            part = await asked_to_append(client, led, records)
            if part.error_code is not expected:
                told = f"{part.error_code.name} to {what}, which calls for {expected.name}"
                raise Violation(INVARIANT, f"{led.tp}: broker {led.broker} answers {told}")


def _sizes(limit: int, refusal: ErrorCode) -> Iterator[Asked]:
    yield f"a batch of {limit} bytes", _of_size(limit), ErrorCode.none
    yield f"a batch of {limit + 1} bytes", _of_size(limit + 1), refusal


def _of_size(size: int) -> bytes:
    """A batch of one record."""
    around = len(encoded([bytes(size)])) - size
    return next(b for n in range(size - around - 4, size) if len(b := encoded([bytes(n)])) == size)


def _times() -> Iterator[Asked]:
    now, refused = wall_ms() // 1000 * 1000, ErrorCode.invalid_timestamp
    old, young = now - BEFORE_MS, now + DIFFERENCE_MS
    for what, times_ms, expected in (
        ("that are as old as they may be", [old + MARGIN_MS, now], ErrorCode.none),
        ("that are as young as they may be", [now, young - MARGIN_MS], ErrorCode.none),
        ("of which the first is too old", [old - MARGIN_MS, now], refused),
        ("of which the last is too old", [now, old - MARGIN_MS], refused),
        ("of which the first is too young", [young + MARGIN_MS, now], refused),
        ("of which the last is too young", [now, young + MARGIN_MS], refused),
    ):
        yield f"records {what}", encoded([b"v", b"v"], times_ms=times_ms), expected
