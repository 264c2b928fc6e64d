"""What is said to a broker on purpose, and how it must be refused."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import Disconnected
from simulation.clients.client import PAUSE_S, Client
from simulation.violation import Violation

ASKED_MAX: Final = 5
"""A controller may have come back on another connection just now, which shuts ours out; and a
connection that nobody used is closed sooner or later."""


class Word(NamedTuple):
    """``refusals``: takes the errors out of an answer; each must be the one ``expected``."""

    what: str
    broker: int
    request: Any
    refusals: Callable[[Any], Iterable[ErrorCode]]
    expected: ErrorCode


async def is_refused(client: Client, word: Word, invariant: str) -> None:
    """Raises Violation of the ``invariant``."""
    refusals = await _refusals(client, word)
    for refusal in refusals:
        if refusal is not word.expected:
            raise Violation(
                invariant,
                f"broker {word.broker} answers {refusal.name} to {word.what}, which calls for "
                f"{word.expected.name}",
            )


async def _refusals(client: Client, word: Word) -> list[ErrorCode]:
    """A group that all have left ends sooner or later, and while that is on its way whoever asks is
    to ask again."""
    again = ErrorCode.coordinator_not_available
    for _ in range(ASKED_MAX):
        refusals = list(word.refusals(await answered(client, word.broker, word.request)))
        if word.expected is again or again not in refusals:
            break
        await asyncio.sleep(PAUSE_S)
    return refusals


async def answered(client: Client, broker: int, request: Any) -> Any:
    """The answer; raises Violation where there is none."""
    for _ in range(ASKED_MAX - 1):
        try:
            return await client.ask(broker, request)
        except Disconnected:
            await asyncio.sleep(PAUSE_S)
    try:
        return await client.ask(broker, request)
    except Disconnected as error:
        raise Violation("Serves", f"broker {broker}: {error}") from error


# --- where answers have their errors --------------------------------------------------------------


def of_whole(answer: Any) -> Iterator[ErrorCode]:
    """One for all of it."""
    yield answer.error_code


def of_fetch(answer: Any) -> Iterator[ErrorCode]:
    """Of a Fetch, by partition."""
    for topic in answer.responses:
        for part in topic.partitions:
            yield part.error_code


def of_parts(answer: Any) -> Iterator[ErrorCode]:
    """Of most others, by partition."""
    for topic in answer.topics:
        for part in topic.partitions:
            yield part.error_code
