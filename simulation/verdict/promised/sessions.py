"""**SessionsTellNews**: in a fetch session an answer has what has news, and nothing that has none,
or that the client has forgotten (KIP-227).

Followers have such sessions, and begin another one when an answer makes no sense: what they are
told too much costs time, and is not to be seen. A consumer that is told of a partition which
somebody else has by now reads it twice.
"""

import asyncio
from itertools import groupby
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.clients.fetch_requests import Limits, fetch_request
from simulation.model.observer import Observer
from simulation.verdict.led import Hosted, Led, led
from simulation.verdict.refused.invalid import produce
from simulation.verdict.refused.words import answered
from simulation.violation import Violation

INVARIANT: Final = "SessionsTellNews"
WAITS: Final = Limits(min_bytes=1, max_wait_ms=500)
QUIET_S: Final = 1.0
"""Within which all watermarks are where they will be."""


class _Session(NamedTuple):
    client: Client
    broker: int
    id: int


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Of two partitions with the same leader, if there are such; raises Violation."""
    await asyncio.sleep(QUIET_S)
    by_leader = sorted(led(observer, hosted), key=lambda each: each.broker)
    for broker, of_one in groupby(by_leader, key=lambda each: each.broker):
        quiet, busy, *_ = (*of_one, None, None)
        if quiet is not None and busy is not None:
            await _of_two(client, broker, quiet, busy)
            return


async def _of_two(client: Client, broker: int, quiet: Led, busy: Led) -> None:
    both = [(quiet.tp, quiet.end), (busy.tp, busy.end)]
    begun = await answered(client, broker, fetch_request(both, session=(0, 0)))
    if begun.error_code is not ErrorCode.none or begun.session_id == 0:
        return  # there is no room for one
    session = _Session(client, broker, begun.session_id)
    before = (quiet.start, quiet.end)
    await _news(session, busy.tp)
    told = _told(await answered(client, broker, fetch_request((), WAITS, session=(session.id, 1))))
    retained = (quiet.start, quiet.end) != before
    if busy.tp not in told or (quiet.tp in told and not retained):
        what = f"{sorted(told)} is told, and there is news of {busy.tp} alone"
        raise Violation(INVARIANT, f"of {quiet.tp} and {busy.tp} {what}")
    told = _told(
        await answered(
            client, broker, fetch_request((), session=(session.id, 2), forgotten=[busy.tp])
        )
    )
    await _news(session, busy.tp)
    told |= _told(await answered(client, broker, fetch_request((), session=(session.id, 3))))
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
