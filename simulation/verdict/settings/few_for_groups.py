"""**UnavailableIsSaid**: where ``__consumer_offsets`` has too few replicas in sync, members are
told that their coordinator is not available, and ask again. NOT_ENOUGH_REPLICAS is for producers: a
consumer gives up (``GroupMetadataManager.storeOffsets``, ``storeGroup``).
"""

from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from simulation.clients.administration import Administrator
from simulation.clients.client import Client
from simulation.clients.group_requests import Place, commit, from_outside, sync
from simulation.plans.actions import AlterTopic
from simulation.verdict import patience
from simulation.verdict.grouped.of_members import joins, leaves
from simulation.verdict.refused.words import Word, answered, is_refused, of_whole
from simulation.verdict.settings import limits
from simulation.violation import Violation

INVARIANT: Final = "UnavailableIsSaid"
GROUP: Final = "few"
INSTANCE: Final = "instance"
TOO_MANY: Final = "9"
PATIENCE_S: Final = 30.0


async def check(client: Client, administrator: Administrator) -> None:
    """Raises Violation."""
    place = await joins(client, GROUP, INSTANCE)
    await leaves(client, place, INSTANCE, invariant=INVARIANT)
    before = await _commits(client, place)
    if before is not ErrorCode.none:
        raise Violation("Serves", f"{before.name} to a commit of group {GROUP}")
    await _set(administrator, TOO_MANY)
    await _until(client, place, lambda error: error is not ErrorCode.none)
    told = await _commits(client, place)
    if told is not ErrorCode.coordinator_not_available:
        what = f"{told.name} to a commit, which needs more replicas than there are"
        raise Violation(INVARIANT, f"group {GROUP}: {what}")
    member = await joins(client, GROUP, INSTANCE)
    share = sync(member, {member.member_id: b""}, INSTANCE)
    expected = ErrorCode.coordinator_not_available
    word = Word("a SyncGroup that cannot be stored", member.coordinator, share, of_whole, expected)
    await is_refused(client, word, INVARIANT)
    await _set(administrator, "1")
    await leaves(client, member, INSTANCE, invariant=INVARIANT)
    await _until(client, place, lambda error: error is ErrorCode.none)


async def _set(administrator: Administrator, replicas: str) -> None:
    order = AlterTopic(topic=OFFSETS_TOPIC, name="min.insync.replicas", value=replicas)
    await patience.obeyed(administrator, order)


async def _until(client: Client, place: Place, is_told: Callable[[ErrorCode], bool]) -> None:
    """The leader has heard of the setting."""

    async def why() -> str | None:
        error = await _commits(client, place)
        return None if is_told(error) else f"{error.name} to a commit of group {GROUP}"

    await patience.wait("Serves", PATIENCE_S, why)


async def _commits(client: Client, place: Place) -> ErrorCode:
    request: Any = commit(from_outside(GROUP), limits.TOPIC, {0: 1})
    answer = await answered(client, place.coordinator, request)
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error
