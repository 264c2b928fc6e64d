"""All that is asked on purpose when everything else is judged, in its order."""

import asyncio
from collections.abc import Mapping
from typing import Final

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from simulation.clients.administration import Administrator
from simulation.clients.client import Client
from simulation.clients.group_requests import Place
from simulation.model.observer import Observer
from simulation.plans.actions import ElectPreferred, ExpireSession, Who
from simulation.plans.plan import Plan
from simulation.verdict import agreeing, broken_off, kept, pipelined, waiting
from simulation.verdict.administered import (
    altering,
    hosting,
    inherited,
    invalid_orders,
    taking_back,
    unclean,
)
from simulation.verdict.disks import failing, garbled, unreadable
from simulation.verdict.grouped import (
    changing_members,
    contested_groups,
    deleted_groups,
    moved_coordinators,
    of_members,
    protocols,
    slow_members,
)
from simulation.verdict.led import of_clients
from simulation.verdict.promised import (
    deleted_topics,
    deleting,
    described,
    fetching,
    moving,
    sessions,
    successor,
)
from simulation.verdict.refused import invalid, invalid_groups, outdated
from simulation.verdict.settings import (
    append_time,
    expiring,
    few_for_groups,
    follower_reads,
    group_limits,
    laggards,
    limits,
    retaining,
    session_slots,
    together,
)
from simulation.verdict.settling import Cluster, settle

PATIENCE_S: Final = 30.0
ASKED_EVERY: Final = 6
FAILS_EVERY: Final = 2 * ASKED_EVERY
"""A broker is away for a while after that."""
HEARD_OF_S: Final = 1.0
"""Within which everybody knows that a session is over."""


async def leaders_stay(administrator: Administrator, world: Cluster) -> None:
    """All are led by whom they are to be led, and no rebalance of leaders moves one from under who
    asks it."""
    await administrator.obey(ElectPreferred(), patience_s=PATIENCE_S)
    await settle(world)


async def ask(client: Client, administrator: Administrator, world: Cluster, plan: Plan) -> None:
    """Raises Violation. What is promised is asked for in every sixth seed: the answers hardly
    depend on what happened before, and take longer than a plan. Last comes what a
    controller says: its broker obeys no other after that."""
    waiting.check(world.observer, world.hosted)
    await pipelined.check(client, world.observer, world.hosted)
    await broken_off.connect(client, world)
    await settle(world)
    await kept.check(world, world.observer)
    await invalid_orders.check(client, world.observer)
    if plan.seed % ASKED_EVERY == 0:
        await _what_is_promised(client, administrator, world)
        await unclean.check(client, administrator, world)
        if plan.seed % FAILS_EVERY == 0:
            await failing.check(administrator, world)
            await leaders_stay(administrator, world)
        await _what_is_set(client, administrator, world, dict(plan.settings))
    await invalid.check(client, world.observer, world.hosted)
    await outdated.check(client, world.observer, world.hosted)
    await kept.check(world, world.observer)
    await successor.check(client, world.observer)


async def _what_is_promised(client: Client, administrator: Administrator, world: Cluster) -> None:
    await _static_members(client, world.observer)
    await deleted_groups.check(client, administrator, world.observer)
    await deleted_topics.check(client, administrator, world.observer)
    await deleted_topics.are_made_again(administrator, world.observer)
    await settle(world)
    await fetching.check(client, world.observer, world.hosted)
    await sessions.check(client, world.observer, world.hosted)
    await described.partitions(client, world.observer, world.hosted)
    await _first_leader_has_another_session(administrator, world)
    await moving.check(client, world)
    await leaders_stay(administrator, world)
    await taking_back.check(client, administrator, world)
    await leaders_stay(administrator, world)
    await deleting.check(client, world.observer, world.hosted)
    await agreeing.gone(client, world)


async def _first_leader_has_another_session(administrator: Administrator, world: Cluster) -> None:
    """And leads again: what it listened to in the former one it must listen to in this one."""
    tp = next(of_clients(world.observer), None)
    if tp is not None:
        world.strike(ExpireSession(who=Who(role="leader", topic=tp.topic, partition=tp.partition)))
        await asyncio.sleep(HEARD_OF_S)
        await settle(world)
        await leaders_stay(administrator, world)


async def _what_is_set(
    client: Client, administrator: Administrator, world: Cluster, settings: Mapping[str, str]
) -> None:
    """Last comes what happens in a long time: all clocks are ahead after that."""
    await leaders_stay(administrator, world)
    await follower_reads.check(client, world, settings)
    await laggards.check(client, administrator, world, settings)
    await together.check(client, administrator, world)
    await garbled.check(client, administrator, world)
    await altering.check(client, administrator, world)
    await hosting.check(administrator, world)
    await inherited.check(administrator, world)
    await append_time.check(client, administrator, world)
    await limits.check(client, administrator, world)
    await session_slots.check(client, world, settings)
    await retaining.check(client, administrator, world, settings)
    await unreadable.check(client, administrator, world)
    await leaders_stay(administrator, world)  # a broker was away: what it led is to come back
    if OFFSETS_TOPIC in world.observer.topics:
        await group_limits.check(client, settings)
        await few_for_groups.check(client, administrator)
        await moved_coordinators.check(client, administrator, world)
        await expiring.check(client, world, settings)


async def of_group(member: Client, place: Place, tp: TopicPartition) -> None:
    """Of one whose only member has that ``place``, which is another one afterwards; raises
    Violation."""
    await invalid_groups.check(member, place, tp)
    await described.group(member, place)
    await of_members.leader_calls_again(member, place)


async def _static_members(client: Client, observer: Observer) -> None:
    tp = next(of_clients(observer), None)
    if OFFSETS_TOPIC in observer.topics and tp is not None:
        await of_members.static_member_stays(client, tp)
        await slow_members.check(client)
        await changing_members.check(client)
        await protocols.check(client)
        await contested_groups.check(client, tp)
