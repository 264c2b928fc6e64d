"""**SessionsTellNews**: in a fetch session an answer has what has news, and nothing that has none,
or that the client has forgotten (KIP-227).

Followers have such sessions, and begin another one when an answer makes no sense: what they are
told too much costs time, and is not to be seen. A consumer that is told of a partition which
somebody else has by now reads it twice.
"""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.types import BrokerId, Offset, TopicPartition
from broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.observer.observer import Observer
from simulation.verdict.promised.fetching import AMPLE, Led, led_here
from simulation.verdict.refused.invalid import Hosted, produce
from simulation.verdict.refused.words import answered
from simulation.violation import Violation

INVARIANT: Final = "SessionsTellNews"
WAIT_MS: Final = 500
QUIET_S: Final = 1.0
"""Within which all watermarks are where they will be."""


class _Session(NamedTuple):
    client: Client
    broker: int
    id: int


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Of two partitions with the same leader, if there are such; raises Violation."""
    await asyncio.sleep(QUIET_S)
    by_leader = sorted(led_here(observer, hosted), key=lambda led: led.broker)
    for broker, led in groupby(by_leader, key=lambda led: led.broker):
        quiet, busy, *_ = (*led, None, None)
        if quiet is not None and busy is not None:
            await _of_two(client, broker, quiet, busy)
            return


async def _of_two(client: Client, broker: int, quiet: Led, busy: Led) -> None:
    both = [(quiet.tp, quiet.end), (busy.tp, busy.end)]
    begun = await answered(client, broker, _fetch(0, 0, asked=both))
    if begun.error_code is not ErrorCode.none or begun.session_id == 0:
        return  # there is no room for one
    session = _Session(client, broker, begun.session_id)
    before = (quiet.start, quiet.end)
    await _news(session, busy.tp)
    told = _told(await answered(client, broker, _fetch(session.id, 1, WAIT_MS)))
    retained = (quiet.start, quiet.end) != before
    if busy.tp not in told or (quiet.tp in told and not retained):
        what = f"{sorted(told)} is told, and there is news of {busy.tp} alone"
        raise Violation(INVARIANT, f"of {quiet.tp} and {busy.tp} {what}")
    told = _told(await answered(client, broker, _fetch(session.id, 2, forgotten=busy.tp)))
    await _news(session, busy.tp)
    told |= _told(await answered(client, broker, _fetch(session.id, 3)))
    if busy.tp in told:
        raise Violation(INVARIANT, f"{busy.tp} is told of, which its consumer has forgotten")


async def _news(session: _Session, tp: TopicPartition) -> None:
    """A record that all of the ISR has, which may be fewer than ``min.insync.replicas``."""
    await answered(session.client, session.broker, produce(tp, 1, encoded([b"news"])))
    await asyncio.sleep(QUIET_S)


def _told(answer: Any) -> set[TopicPartition]:
    return {
        TopicPartition(topic.topic, part.partition_index)
        for topic in answer.responses
        for part in topic.partitions
    }


def _fetch(
    session_id: int,
    session_epoch: int,
    max_wait_ms: int = 0,
    *,
    asked: Iterable[tuple[TopicPartition, int]] = (),
    forgotten: TopicPartition | None = None,
) -> FetchRequest:
    topics = tuple(
        FetchTopic(
            topic=tp.topic,
            partitions=(
                FetchPartition(
                    partition=tp.partition, fetch_offset=Offset(at), partition_max_bytes=AMPLE
                ),
            ),
        )
        for tp, at in asked
    )
    left: tuple[ForgottenTopic, ...] = ()
    if forgotten is not None:
        left = (ForgottenTopic(topic=forgotten.topic, partitions=(forgotten.partition,)),)
    return FetchRequest(
        version=11,
        replica_id=BrokerId(-1),
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=AMPLE,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=left,
    )
