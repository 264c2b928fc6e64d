"""**ProtocolsAgree**: members of a group know several ways to share partitions out, each its own.

* Of the ways that all know, theirs is the one that most like best; and so it is when a static
  member comes back that likes another one.
* Where as many like one best as another, a static member comes back and nobody joins again.
* Who knows none of them is not let in.
* Who waits for its part while another one joins again is told to join, too.

Members of a plan are two at most, and all know the same two ways. What a generation must have, and
when it begins, is seen by whoever watches groups (``tests/support/group_rules``).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from simulation.clients.client import PAUSE_S, Client
from simulation.clients.group_requests import Place, join, protocols, sync
from simulation.verdict.grouped.deleted_groups import coordinator_of
from simulation.verdict.grouped.of_members import leaves
from simulation.verdict.refused.words import Word, answered, is_refused, of_whole
from simulation.violation import Violation

INVARIANT: Final = "ProtocolsAgree"
GROUP: Final = "dialects"
FIRST, SECOND, THIRD = "likes-share", "likes-spare", "likes-either"
KNOWN: Final = {
    FIRST: ("share", "spare"),
    SECOND: ("spare", "share"),
    THIRD: ("spare", "own", "share"),
}
CHANGED: Final = {**KNOWN, THIRD: ("own", "share", "spare")}
"""Now two of them like the other way."""
TIED: Final = {each: KNOWN[each] for each in (FIRST, SECOND)}
"""As many like one way as the other."""
STRANGER: Final = "knows-no-other"
ROUNDS_MAX: Final = 5
TOLD_S: Final = 1.0

Likes = Mapping[str, tuple[str, ...]]


async def check(client: Client) -> None:
    """Raises Violation. Not where leaderships are on their way: others see to that."""
    coordinator = await coordinator_of(client, GROUP)
    if coordinator is None:
        return
    members = {each: Client(each, client.brokers, client.history) for each in KNOWN}
    group = _Dialects(members, coordinator)
    if await group.agree(KNOWN):
        await is_refused(client, _word(coordinator, STRANGER, ("own",)), INVARIANT)
        await group.share()
        if await group.agree(CHANGED):
            await group.called_while_one_waits()
        if await group.agree(KNOWN):
            await leaves(client, group.places.pop(THIRD), THIRD, invariant=INVARIANT)
            if await group.agree(TIED):
                await group.share()
                await group.come_back(TIED)
            await leaves(client, group.places[FIRST], *TIED, invariant=INVARIANT)
    for member in members.values():
        await member.close()


class _Dialects:
    """Static members, which come back each time as if they had been restarted."""

    def __init__(self, members: Mapping[str, Client], coordinator: int) -> None:
        self._members = members
        self._coordinator = coordinator
        self._leader = ""
        self.places: dict[str, Place] = {}

    async def agree(self, likes: Likes) -> bool:
        """Whether all are in one generation."""
        for _ in range(ROUNDS_MAX):
            joined = await asyncio.gather(
                *(self._joins(each, known, place) for place, (each, known) in _numbered(likes))
            )
            if all(joined) and len({place.generation for place in self.places.values()}) == 1:
                return True
        return False

    async def share(self) -> None:
        """All ask for their parts; those that the leader gives count."""
        parts = {place.member_id: b"" for place in self.places.values()}
        await asyncio.gather(*(self._syncs(each, parts) for each in self.places))

    async def come_back(self, likes: Likes) -> None:
        """One after the other: nobody else notices. Raises Violation."""
        for each, known in likes.items():
            generation = self.places[each].generation
            is_there = await self._joins(each, known, 0)
            if is_there and self.places[each].generation != generation:
                what = f"{each}, which is back, has all join after generation {generation}"
                raise Violation(INVARIANT, f"group {GROUP}: {what}")

    async def called_while_one_waits(self) -> None:
        """The parts are not given yet. Raises Violation."""
        other = next(each for each, at in self.places.items() if at.member_id != self._leader)
        again = next(each for each, at in self.places.items() if at.member_id == self._leader)
        waiting = asyncio.ensure_future(self._syncs(other, {}))
        joining = None
        try:
            await asyncio.sleep(PAUSE_S)
            joining = asyncio.ensure_future(self._joins(again, KNOWN[again], 0))
            await asyncio.wait((waiting,), timeout=TOLD_S)
            told = waiting.result() if waiting.done() else None
            if told is None or told is ErrorCode.none:
                what = "nothing" if told is None else told.name
                raise Violation(
                    INVARIANT, f"group {GROUP}: {what} to who waits for its part, and is to join"
                )
        finally:
            waiting.cancel()
            if joining is not None:
                joining.cancel()

    async def _joins(self, instance: str, known: tuple[str, ...], place: int) -> bool:
        """``place``: in which order."""
        await asyncio.sleep(place * PAUSE_S)
        request = _join(instance, known)
        answer = await answered(self._members[instance], self._coordinator, request)
        if answer.error_code is not ErrorCode.none:
            return False
        generation, member = answer.generation_id, answer.member_id
        self.places[instance] = Place(self._coordinator, GROUP, generation, member)
        self._leader = answer.leader
        return True

    async def _syncs(self, instance: str, parts: Mapping[str, bytes]) -> ErrorCode:
        request = sync(self.places[instance], parts, instance)
        answer = await answered(self._members[instance], self._coordinator, request)
        error: ErrorCode = answer.error_code
        return error


def _numbered(likes: Likes) -> enumerate[tuple[str, tuple[str, ...]]]:
    return enumerate(likes.items())


def _join(instance: str, known: tuple[str, ...]) -> Any:
    return replace(join(GROUP, "", instance_id=instance), protocols=protocols(*known))


def _word(coordinator: int, instance: str, known: tuple[str, ...]) -> Word:
    refused = ErrorCode.inconsistent_group_protocol
    what = f"a JoinGroup of {instance}, which knows {known}"
    return Word(what, coordinator, _join(instance, known), of_whole, refused)
