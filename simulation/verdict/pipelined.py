"""**AnsweredInOrder**: all requests of a connection are answered, in their order, each with its
correlation id, and carried out in it, too, those that get no answer (acks=0) among them.

However many there are: a broker that has as many under way as it keeps of one connection reads no
further, and begins the next ones when there is room, though no byte comes any more. And however
they are cut: TCP knows of bytes, not of requests. Other clients here write one request at a time
and have few under way.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.codec import read_response, write_request
from ackproof.broker.wire.messages.api_versions import ApiVersionsRequest
from ackproof.broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from simulation.clients.batches import encoded
from simulation.clients.client import PORT, Client, host_of
from simulation.clients.fetch_requests import AMPLE, Limits, fetch_request
from simulation.clients.pipeline import Pipeline, in_pieces
from simulation.model.observer import Observer
from simulation.verdict.administered.altering import describe
from simulation.verdict.administered.invalid_settings import TOPIC
from simulation.verdict.led import Hosted, Led, led
from simulation.verdict.refused.invalid import produce
from simulation.violation import Violation

INVARIANT: Final = "AnsweredInOrder"
REQUESTS: Final = 90
"""More than twice what a broker has under way of one connection."""
WAITS_MS: Final = 200
WAITS_EVERY: Final = 20
ANSWERED_S: Final = 3.0
"""Several waits, one after the other."""
UNREAD_S: Final = 0.5
LARGE: Final = tuple(letter * 30_000 for letter in "xyz")
"""Names in a request that is larger than what is read at a time, as is what is answered."""
PIECES: Final = ((1, 3, 2, 5), (2, 61, 4, 150), (1_000,))
"""A byte, a size in two parts, a request in several and two and a half in one."""
NO_ANSWER: Final = 0
LONG_MS: Final = 60_000
LEFT_BEHIND: Final = 8
"""Of each kind: fewer together than what a broker has under way of one connection, so that it reads
on, and sees that it is closed."""


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Of a partition's leader; raises Violation."""
    asked = next(iter(led(observer, hosted)), None)
    if asked is None:
        return
    many = list(_of_all_kinds(asked))
    await _answered(client, asked, many, [b"".join(_frames(client, many))])
    for sizes in PIECES:
        few = many[: WAITS_EVERY // 2]
        whole = b"".join(_frames(client, few))
        await _answered(client, asked, few, list(in_pieces(whole, sizes)))
    large = [_metadata(LARGE), ApiVersionsRequest(version=2)] * 8
    await _answered(client, asked, large, _frames(client, large), unread_s=UNREAD_S)
    await _hangs_up(client, asked)


def _of_all_kinds(led: Led) -> Iterator[Any]:
    """Every now and then one that is answered much later than those behind it."""
    waits = Limits(min_bytes=AMPLE, max_wait_ms=WAITS_MS)
    for number in range(REQUESTS):
        if number % WAITS_EVERY == 0:
            yield fetch_request([(led.tp, led.end)], waits)
        elif number % 5 == 1:
            yield ApiVersionsRequest(version=2)
        elif number % 5 == 2:
            yield produce(led.tp, NO_ANSWER, encoded([b"unanswered"]))
        elif number % 5 == 3:
            yield _metadata((led.tp.topic,))
        else:
            yield produce(led.tp, 1, encoded([b"answered"]))


def _metadata(topics: Sequence[str]) -> MetadataRequest:
    return MetadataRequest(
        version=9,
        topics=tuple(MetadataRequestTopic(name=name) for name in topics),
        allow_auto_topic_creation=False,
    )


def _frames(client: Client, requests: Sequence[Any]) -> list[bytes]:
    return [write_request(each, number, client.name) for number, each in enumerate(requests)]


def _is_answered(request: Any) -> bool:
    return getattr(request, "acks", 1) != NO_ANSWER


async def _answered(
    client: Client, led: Led, requests: Sequence[Any], pieces: Sequence[bytes], unread_s: float = 0
) -> None:
    pipeline = await _to(led)
    try:
        if unread_s:
            pipeline.pause()
        pipeline.write(pieces)
        if unread_s:
            await asyncio.sleep(unread_s)
            pipeline.resume()
        expected = [n for n, request in enumerate(requests) if _is_answered(request)]
        if not await pipeline.has(len(expected), ANSWERED_S):
            what = f"{len(pipeline.responses)} of {len(expected)} requests are answered"
            how = "then the connection is lost" if pipeline.is_lost else f"in {ANSWERED_S:.0f} s"
            raise Violation(INVARIANT, f"{_who(client, led)}: {what}, {how}")
        answers = _read(client, led, requests, expected, pipeline.responses)
        _carried_out(client, led, requests, answers)
    finally:
        pipeline.hang_up()


async def _hangs_up(client: Client, led: Led) -> None:
    """While its requests wait, for news and for ZooKeeper. What the broker still has of them then
    is NothingIsKept's business."""
    waits = fetch_request([(led.tp, led.end)], Limits(min_bytes=AMPLE, max_wait_ms=LONG_MS))
    settings = describe((TOPIC, led.tp.topic))
    pipeline = await _to(led)
    pipeline.write(_frames(client, [waits, settings] * LEFT_BEHIND))
    pipeline.hang_up()


async def _to(led: Led) -> Pipeline:
    try:
        return await Pipeline.to(host_of(led.broker), PORT)
    except OSError as error:
        raise Violation("Serves", f"broker {led.broker}: {error}") from error


def _read(
    client: Client,
    led: Led,
    requests: Sequence[Any],
    expected: Sequence[int],
    responses: Sequence[bytes],
) -> dict[int, Any]:
    """By the number of their request."""
    if len(responses) > len(expected):
        what = f"{len(responses)} responses to {len(expected)} requests"
        raise Violation(INVARIANT, f"{_who(client, led)}: {what}")
    answers = {}
    for number, response in zip(expected, responses, strict=True):
        try:
            told, answers[number] = read_response(requests[number], response)
        except ValueError as error:
            what = f"what came for request {number} is no answer to it: {error}"
            raise Violation(INVARIANT, f"{_who(client, led)}: {what}") from error
        if told != number:
            what = f"the answer to request {told} came where that to {number} was due"
            raise Violation(INVARIANT, f"{_who(client, led)}: {what}")
    return answers


def _carried_out(
    client: Client, led: Led, requests: Sequence[Any], answers: dict[int, Any]
) -> None:
    """One record in each Produce, and nobody else sends any: offsets tell of their order."""
    produced = [n for n, request in enumerate(requests) if hasattr(request, "acks")]
    first: int | None = None
    for place, number in enumerate(produced):
        if number not in answers:
            continue
        part = answers[number].responses[0].partition_responses[0]
        if part.error_code is not ErrorCode.none:
            continue
        first = part.base_offset - place if first is None else first
        if part.base_offset != first + place:
            what = f"request {number} got offset {part.base_offset}, due was {first + place}"
            raise Violation(INVARIANT, f"{_who(client, led)}: {what}")


def _who(client: Client, led: Led) -> str:
    return f"{client.name} at broker {led.broker}, of {led.tp}"
