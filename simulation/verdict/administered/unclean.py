"""**UncleanAsSet**: a replica outside the ISR leads where ``unclean.leader.election.enable`` says
so, or somebody asks for it, and nowhere else.

Of two replicas one leaves the ISR, the other appends more and is gone: nobody leads, however long
the first one has been back (CleanElection). Set to true, the topic is led by it at once, though
nothing else happens (``KafkaController.processTopicUncleanLeaderElectionEnable``); set to false
again, it is not the next time, until somebody asks for an unclean election (KIP-460), nor once that
one is over. In a plan it hardly ever comes to that, and its settings of this stay as they are.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.types import NO_LEADER, TopicPartition
from simulation.clients.administration import Administrator
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.plans.actions import AlterTopic, ExpireSession, Kill, Who
from simulation.verdict import agreeing, patience
from simulation.verdict.administered.invalid_orders import UNCLEAN, elect, errors
from simulation.verdict.led import Led
from simulation.verdict.promised.moving import who_decides
from simulation.verdict.refused.words import Word, is_refused
from simulation.verdict.settings.asked_topics import PATIENCE_S, appended, made, of_topic
from simulation.verdict.settling import Cluster, settle
from simulation.violation import Violation

INVARIANT: Final = "UncleanAsSet"
TOPIC: Final = "unclean"
SETTING: Final = "unclean.leader.election.enable"
DOWN_MS: Final = 3_000
LONGER_MS: Final = 9_000
WATCHED_S: Final = 1.0
"""For who would lead though he must not."""
AT_ONCE_S: Final = 5.0


class _Asked(NamedTuple):
    client: Client
    world: Cluster
    tp: TopicPartition


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Where there is a controller, and two brokers besides; raises Violation."""
    replicas = [broker for broker in client.brokers if broker != world.observer.controller][:2]
    if world.observer.controller is None or len(replicas) < 2:
        return
    first, second = replicas
    (led,) = await made(administrator, world, TOPIC, {SETTING: "false"}, replicas=(first, second))
    asked = _Asked(client, world, led.tp)
    await _nobody_leads(asked, gone=first, behind=second)
    await patience.obeyed(administrator, AlterTopic(topic=TOPIC, name=SETTING, value="true"))
    await _until(asked, "set to be led by anybody", lambda: _leader(asked) == second, AT_ONCE_S)
    await _until(asked, "to have both in its ISR", lambda: _known_isr(asked) == set(replicas))
    await patience.obeyed(administrator, AlterTopic(topic=TOPIC, name=SETTING, value="false"))
    await agreeing.settings(world.observer, world.hosted)
    await _nobody_leads(asked, gone=second, behind=first)
    world.observer.unclean.add(TOPIC)
    await _is_elected(asked)
    await _until(asked, "to be led by who was elected", lambda: _leader(asked) == first)
    await settle(world)
    world.observer.unclean.discard(TOPIC)  # who was asked once has obeyed
    await _nobody_leads(asked, gone=first, behind=second)
    await settle(world)


async def _nobody_leads(asked: _Asked, gone: int, behind: int) -> None:
    """Though one that is ``behind`` is there; raises Violation where it leads."""
    world, tp = asked.world, asked.tp
    _kill(world, behind, DOWN_MS)
    await _until(asked, f"to have {gone} alone in its ISR", lambda: _isr(asked) == {gone})
    await appended(asked.client, await _serving(asked, gone), encoded([b"v"]))
    _kill(world, gone, LONGER_MS)
    await _until(asked, "to be led by nobody", lambda: _leader(asked) == NO_LEADER)
    there = lambda: world.hosted(behind, tp) is not None  # noqa: E731
    await _until(asked, f"to be hosted by {behind}", there)
    await asyncio.sleep(WATCHED_S)
    if _leader(asked) != NO_LEADER:
        raise Violation(INVARIANT, f"{tp} is led by {_leader(asked)}, in its ISR was {gone} alone")


async def _serving(asked: _Asked, broker: int) -> Led:
    await _until(asked, f"to be led by {broker}", lambda: _leader(asked) == broker)
    return await of_topic(asked.world, asked.tp)


def _kill(world: Cluster, broker: int, down_ms: int) -> None:
    """Everybody hears of that at once."""
    who = Who(broker=broker)
    world.strike(Kill(who=who, down_ms=down_ms))
    world.strike(ExpireSession(who=who))


async def _is_elected(asked: _Asked) -> None:
    tp = asked.tp
    request = elect(UNCLEAN, tp, timeout_ms=int(PATIENCE_S * 1000))
    decides = who_decides(asked.client, asked.world.observer)
    what = f"an unclean election of {tp}, which nobody leads"
    word = Word(f"{what}, by who is asked for it,", decides, request, errors, ErrorCode.none)
    await is_refused(asked.client, word, INVARIANT)


def _leader(asked: _Asked) -> int | None:
    partition = asked.world.observer.find(asked.tp)
    return None if partition is None or partition.state is None else partition.state.leader


def _isr(asked: _Asked) -> set[int]:
    partition = asked.world.observer.find(asked.tp)
    return set() if partition is None or partition.state is None else set(partition.state.isr)


def _known_isr(asked: _Asked) -> set[int]:
    """As the controller has heard of it, which takes some seconds: it takes nobody out of an ISR
    in which he is not yet."""
    context = asked.world.controller_context()
    state = None if context is None else context.states.get(asked.tp)
    return set() if state is None else set(state.isr)


async def _until(
    asked: _Asked, what: str, holds: Callable[[], bool], within_s: float = PATIENCE_S
) -> None:
    async def why() -> str | None:
        led = f"{_leader(asked)} leads it, and the ISR is {sorted(_isr(asked))}"
        return None if holds() else f"{asked.tp} was {what}: {led}"

    await patience.wait(INVARIANT, within_s, why)
