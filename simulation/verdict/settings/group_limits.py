"""**GroupLimitsKept**: what a broker's settings say of groups is what its coordinators go by.

* ``group.max.size`` members are let in, one more is not, and who is in comes back whatever the size
  (KIP-389; ``GroupCoordinator.acceptJoiningMember``). When somebody has left there is a place.
* ``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms`` are sessions that a member
  may have, a millisecond less or more is none (INVALID_SESSION_TIMEOUT).
* ``offset.metadata.max.bytes`` are told back with the offset; with one more this one is refused,
  and what comes with it is stored (``validateOffsetMetadataLength``). All is ASCII here.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import LeaderEpoch
from ackproof.broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
)
from ackproof.broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from simulation.clients.client import Client, beside
from simulation.clients.group_requests import Place, commit, from_outside, join
from simulation.verdict.grouped.of_members import joins, leave_group, leaves, of_leavers
from simulation.verdict.refused.words import Word, answered, is_refused, of_parts, of_whole
from simulation.verdict.settings.retaining import AGED
from simulation.violation import Violation

INVARIANT: Final = "GroupLimitsKept"
GROUP: Final = "limited"
REBALANCE_MS: Final = 300
EPOCH: Final = LeaderEpoch(0)
OFFSET: Final = 5


async def check(client: Client, settings: Mapping[str, str]) -> None:
    """Raises Violation. ``settings``: of the brokers; what they leave open is not asked for."""
    if "group.max.size" in settings:
        await _sizes(client, int(settings["group.max.size"]))
    if "group.max.session.timeout.ms" in settings:
        await _sessions(client, settings)
    if "offset.metadata.max.bytes" in settings:
        await _metadata(client, int(settings["offset.metadata.max.bytes"]))


# --- members --------------------------------------------------------------------------------------


async def _sizes(client: Client, size: int) -> None:
    instances = [f"instance-{number}" for number in range(size)]
    place = await joins(client, GROUP, instances[0], rebalance_timeout_ms=REBALANCE_MS)
    async with AsyncExitStack() as stack:
        others = [(await stack.enter_async_context(beside(client)), i) for i in instances[1:]]
        answers = await asyncio.gather(
            *(answered(other, place.coordinator, _join(instance)) for other, instance in others)
        )
    for answer, instance in zip(answers, instances[1:], strict=True):
        if answer.error_code is not ErrorCode.none:
            what = f"{answer.error_code.name} to {instance}, where {size} may be members"
            raise Violation(INVARIANT, f"group {GROUP}: {what}")
    for word in _of_a_full_group(place, instances):
        await is_refused(client, word, INVARIANT)
    await joins(client, GROUP, "latecomer", rebalance_timeout_ms=REBALANCE_MS)
    await leaves(client, place, "latecomer", *instances[1:], invariant=INVARIANT)


def _of_a_full_group(place: Place, instances: list[str]) -> Iterator[Word]:
    broker, full = place.coordinator, ErrorCode.group_max_size_reached
    what = f"a JoinGroup to group {GROUP}, which is full,"
    yield Word(f"{what} of a static member", broker, _join("latecomer"), of_whole, full)
    yield Word(f"{what} of another one", broker, _join(None), of_whole, full)
    back = _join(instances[0])
    yield Word(f"{what} of a member that is back", broker, back, of_whole, ErrorCode.none)
    leaves = leave_group(GROUP, instances[0])
    yield Word("a LeaveGroup", broker, leaves, of_leavers, ErrorCode.none)


def _join(instance_id: str | None) -> Any:
    return join(GROUP, "", instance_id=instance_id, rebalance_ms=REBALANCE_MS)


async def _sessions(client: Client, settings: Mapping[str, str]) -> None:
    refused = ErrorCode.invalid_session_timeout
    for name, beyond in (("min", -1), ("max", 1)):
        bound = int(settings[f"group.{name}.session.timeout.ms"])
        place = await joins(client, GROUP, "instance", session_timeout_ms=bound)
        request = replace(_join("instance"), session_timeout_ms=bound + beyond)
        what = f"a JoinGroup for a session of {bound + beyond} ms, where the {name}imum is {bound}"
        await is_refused(
            client, Word(what, place.coordinator, request, of_whole, refused), INVARIANT
        )
        await leaves(client, place, "instance", invariant=INVARIANT)


# --- offsets --------------------------------------------------------------------------------------


async def _metadata(client: Client, length: int) -> None:
    place = await joins(client, GROUP, "instance")
    word = Word("a commit", place.coordinator, _commit({0: ""}), of_parts, ErrorCode.none)
    await leaves(client, place, "instance", invariant=INVARIANT)
    await is_refused(client, word, INVARIANT)  # the group stays: it is not about to end
    fits, too_long = "m" * length, "m" * (length + 1)
    answer = await answered(client, place.coordinator, _commit({0: fits, 1: too_long}))
    ((one, other),) = [topic.partitions for topic in answer.topics]
    told = (one.error_code, other.error_code)
    if told != (ErrorCode.none, ErrorCode.offset_metadata_too_large):
        what = f"{told} to who commits with {length} and with {length + 1} bytes of metadata"
        raise Violation(INVARIANT, f"group {GROUP}: {what}")
    topic = OffsetFetchRequestTopic(name=AGED, partition_indexes=(0, 1))
    request = OffsetFetchRequest(version=5, group_id=GROUP, topics=(topic,))
    answer = await answered(client, place.coordinator, request)
    stored = [
        (part.committed_offset, part.committed_leader_epoch, part.metadata)
        for part in answer.topics[0].partitions
    ]
    if stored != [(OFFSET, EPOCH, fits), (-1, -1, "")]:
        short = [(offset, epoch, len(metadata or "")) for offset, epoch, metadata in stored]
        what = f"offset, epoch and length of the metadata of what was committed are {short}"
        raise Violation(INVARIANT, f"group {GROUP}: {what}")


def _commit(metadata: Mapping[int, str]) -> OffsetCommitRequest:
    """Each partition's own, with an epoch."""
    requests = [
        commit(from_outside(GROUP), AGED, {number: OFFSET}, each)
        for number, each in metadata.items()
    ]
    parts = tuple(
        replace(part, committed_leader_epoch=EPOCH)
        for request in requests
        for part in request.topics[0].partitions
    )
    return replace(requests[0], topics=(OffsetCommitRequestTopic(name=AGED, partitions=parts),))
