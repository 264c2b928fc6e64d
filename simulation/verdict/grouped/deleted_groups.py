"""What administrators ask of groups: that they, and offsets of theirs, are deleted for good.

* **DeletedGroupsStay**: what was deleted is not there, here and where the next coordinator has
  loaded it; what was not is (KIP-229, KIP-496), and so are members
  (:mod:`simulation.verdict.grouped.of_members`).
* **PreferredLeads**: a preferred replica that is in sync leads when somebody has asked for that
  (KIP-183), which is how another coordinator gets to load the groups.

Nobody deletes in the course of a plan: members would come back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.delete_groups import DeleteGroupsRequest
from ackproof.broker.wire.messages.leave_group import LeaveGroupRequest
from ackproof.broker.wire.messages.list_groups import ListGroupsRequest
from simulation.clients import group_requests
from simulation.clients.administration import Administrator
from simulation.clients.client import PAUSE_S, Client, beside
from simulation.clients.reading import offsets_of
from simulation.model.observer import Observer
from simulation.plans.actions import ElectPreferred, Reassign
from simulation.verdict import patience
from simulation.verdict.grouped import of_members
from simulation.verdict.led import of_clients
from simulation.violation import Violation

INVARIANT: Final = "DeletedGroupsStay"
DOOMED, PRUNED, KEPT, PAIRED = "doomed", "pruned", "kept", "paired"
OFFSET: Final = 7
NOTHING: Final = -1
PATIENCE_S: Final = 30.0
ASKED_EVERY_S: Final = 0.01
"""Oftener than a coordinator looks whether it is one."""

T = TypeVar("T")


async def check(client: Client, administrator: Administrator, observer: Observer) -> None:
    """Raises Violation."""
    home, tp = observer.topics.get(OFFSETS_TOPIC), next(of_clients(observer), None)
    if home is None or tp is None:
        return
    number = partition_for(DOOMED, len(home.partitions))
    groups = {role: _beside(role, number, len(home.partitions)) for role in (DOOMED, PRUNED, KEPT)}
    await _comes_and_goes(client, groups[DOOMED])
    await _never_comes(client, groups[DOOMED])
    for group in groups.values():
        await commit(client, group, tp)
    await _delete(client, groups[DOOMED])
    await _prune(client, groups[PRUNED], tp)
    expected = {groups[DOOMED]: NOTHING, groups[PRUNED]: NOTHING, groups[KEPT]: OFFSET}
    await _are_so(client, expected, tp)
    await _is_listed(client, groups)
    replicas = home.replicas(number)
    if replicas is not None and len(replicas) > 1:
        pair = await of_members.paired(client, _beside(PAIRED, number, len(home.partitions)))
        told = asyncio.ensure_future(_is_told_by(client, groups[KEPT], tp, replicas[1]))
        await _leads_next(administrator, observer, number, (*replicas[1:], replicas[0]))
        await told
        await of_members.called_again(client, pair, replicas[1])
        await _are_so(client, expected, tp)
        await _is_listed(client, groups)
    await _never_comes(client, groups[KEPT])  # and is forgotten while others are asked


def _beside(role: str, number: int, partitions: int) -> str:
    """A group of that partition of ``__consumer_offsets``."""
    names = (role, *(f"{role}-{n}" for n in range(100)))
    return next(name for name in names if partition_for(name, partitions) == number)


# --- who leads ------------------------------------------------------------------------------------


async def _leads_next(
    administrator: Administrator, observer: Observer, number: int, replicas: tuple[int, ...]
) -> None:
    topic = observer.topics[OFFSETS_TOPIC]
    order = Reassign(topic=OFFSETS_TOPIC, partition=number, replicas=replicas)
    for each in (order, ElectPreferred()):
        await patience.obeyed(administrator, each)

    async def why() -> str | None:
        state = topic.partitions[number].state
        if state is not None and state.leader == replicas[0]:
            return None
        what = f"{OFFSETS_TOPIC}-{number} is to be led by {replicas[0]}, and"
        return f"{what} {state and state.leader} leads"

    await patience.wait("PreferredLeads", PATIENCE_S, why)


# --- what is asked --------------------------------------------------------------------------------


async def coordinator_of(client: Client, group: str) -> int | None:
    """As any broker says; raises Disconnected."""
    found = await client.ask_any(group_requests.find_coordinator(group))
    return found.node_id if found.error_code is ErrorCode.none else None


async def _until(what: str, ask: Callable[[], Awaitable[T | None]], pause_s: float = PAUSE_S) -> T:
    """Its first answer that is one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    for _ in count():
        try:
            answer = await ask()
        except Disconnected:
            answer = None
        if answer is not None:
            return answer
        if loop.time() >= end:
            break
        await asyncio.sleep(pause_s)
    raise Violation("Serves", f"{what}: not in {PATIENCE_S:.0f} s")


async def _asked(client: Client, group: str, request: Any, error_in: Callable[[Any], Any]) -> None:
    """Until it is carried out."""

    async def ask() -> bool | None:
        coordinator = await coordinator_of(client, group)
        if coordinator is None:
            return None
        error = error_in(await client.ask(coordinator, request))
        return True if error is ErrorCode.none else None

    await _until(f"{type(request).__name__} of group {group}", ask)


async def _comes_and_goes(client: Client, group: str) -> None:
    """A member, so that there is more to delete than offsets."""
    member_id = ""

    async def ask() -> bool | None:
        nonlocal member_id
        coordinator = await coordinator_of(client, group)
        if coordinator is None:
            return None
        joined = await client.ask(coordinator, group_requests.join(group, member_id))
        member_id = joined.member_id
        if joined.error_code is not ErrorCode.none:
            return None
        left = await client.ask(
            coordinator, LeaveGroupRequest(version=2, group_id=group, member_id=member_id)
        )
        return True if left.error_code is ErrorCode.none else None

    await _until(f"a member of group {group}", ask)


async def _never_comes(client: Client, group: str) -> None:
    """Somebody who is given a member id, and never joins with it: waited for no longer than a
    session, and no reason to keep a group that is deleted (KIP-394)."""

    async def ask() -> bool | None:
        coordinator = await coordinator_of(client, group)
        if coordinator is None:
            return None
        told = await client.ask(coordinator, group_requests.join(group, ""))
        return True if told.error_code is ErrorCode.member_id_required else None

    await _until(f"a member id in group {group}", ask)


async def commit(client: Client, group: str, tp: TopicPartition) -> None:
    """From outside, of an offset that is not the first."""
    offsets = {tp.partition: OFFSET}
    request = group_requests.commit(group_requests.from_outside(group), tp.topic, offsets)
    await _asked(client, group, request, lambda answer: answer.topics[0].partitions[0].error_code)


async def _delete(client: Client, group: str) -> None:
    request = DeleteGroupsRequest(version=1, groups_names=(group,))
    await _asked(client, group, request, lambda answer: answer.results[0].error_code)


async def _prune(client: Client, group: str, tp: TopicPartition) -> None:
    request = group_requests.delete_offset(group, tp)
    await _asked(client, group, request, lambda answer: answer.topics[0].partitions[0].error_code)


# --- what is told ---------------------------------------------------------------------------------


async def _are_so(client: Client, expected: Mapping[str, int], tp: TopicPartition) -> None:
    for group, offset in expected.items():

        async def ask(group: str = group) -> int | None:
            found = await offsets_of(client, await coordinator_of(client, group), group, [tp])
            return None if found is None else found[tp]

        told = await _until(f"OffsetFetch of group {group}", ask)
        if told != offset:
            what = f"group {group} has {told} of {tp} committed, and was left with {offset}"
            raise Violation(INVARIANT, what)


async def _is_told_by(client: Client, group: str, tp: TopicPartition, broker: int) -> None:
    """From now on until it is its coordinator: asked while it loads, which it does when it is
    asked or looks for itself, it has no answer rather than that nothing is committed."""

    async def ask() -> int | None:
        found = await offsets_of(other, broker, group, [tp])
        return None if found is None else found[tp]

    async with beside(client) as other:
        told = await _until(f"OffsetFetch at {broker}", ask, ASKED_EVERY_S)
    if told != OFFSET:
        what = f"broker {broker} tells {told} of {tp}, as soon as it coordinates group {group}"
        raise Violation(INVARIANT, f"{what}, which has committed {OFFSET}")


async def _is_listed(client: Client, groups: Mapping[str, str]) -> None:
    async def ask() -> frozenset[str] | None:
        coordinator = await coordinator_of(client, groups[KEPT])
        if coordinator is None:
            return None
        answer = await client.ask(coordinator, ListGroupsRequest(version=2))
        listed = frozenset(group.group_id for group in answer.groups)
        return listed if answer.error_code is ErrorCode.none else None

    listed = await _until("ListGroups", ask)
    if groups[DOOMED] in listed or groups[KEPT] not in listed:
        what = f"of {groups[KEPT]} and {groups[DOOMED]}, which was deleted, are listed"
        raise Violation(INVARIANT, f"{what} {sorted(listed & set(groups.values()))}")
