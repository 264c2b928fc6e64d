"""**SessionsBounded**: a broker keeps ``max.incremental.fetch.session.cache.slots`` fetch sessions,
and no more (KIP-227, ``FetchSessionCache.tryEvict``).

Who asks for one when all are taken, by sessions like his and none of them old, fetches without.
Sessions that there are go on meanwhile. One that is given up leaves a slot; a follower takes that
of a consumer, the one that fetches fewest partitions, though it is in use.
"""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId
from simulation.clients.client import Client
from simulation.clients.fetch_requests import CONSUMER, Limits, fetch_request
from simulation.verdict.led import Led, led
from simulation.verdict.refused.words import answered
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

INVARIANT: Final = "SessionsBounded"
NONE: Final = 0
NEW, LAST = 0, -1
"""Epochs of who wants a session, and of who wants none any more."""
LITTLE: Final = Limits(partition_max_bytes=1, max_bytes=1)


async def check(client: Client, world: Cluster, settings: Mapping[str, str]) -> None:
    """Of a broker that leads two partitions, if there is one; raises Violation."""
    slots = int(settings.get("max.incremental.fetch.session.cache.slots", 0))
    by_leader: dict[int, list[Led]] = {}
    for each in led(world.observer, world.hosted):
        by_leader.setdefault(each.broker, []).append(each)
    broker = next((broker for broker, several in by_leader.items() if len(several) > 1), None)
    if slots and broker is not None:
        await _Asked(client, world, broker, by_leader[broker]).are_bounded(slots)


class _Asked:
    """A broker, and partitions that it leads."""

    def __init__(self, client: Client, world: Cluster, broker: int, led: list[Led]) -> None:
        self._client = client
        self._world = world
        self._broker = broker
        self._led = led

    async def are_bounded(self, slots: int) -> None:
        """Raises Violation. There may be no slot for consumers: followers' former lives, and those
        that went over to other sessions, keep theirs for two minutes."""
        if self._there() >= slots:
            return
        large = await self._begin(2)
        small = [await self._begin(1) for _ in range(slots)]
        given = [session for session in small if session != NONE]
        there = self._there()
        if large == NONE or there > slots or small[: len(given)] != given:
            what = f"{len(given)} of {len(small)} more sessions are given, {there} are there"
            raise Violation(INVARIANT, f"broker {self._broker} has {slots} slots, and {what}")
        await self._all_go_on([large, *given], 1)
        if given:
            await self._gives_place(given)
        follower = next(iter(self._led[0].leader.replica.follower_ends), None)
        if given and follower is not None:
            await self._makes_place(large, given, follower)
        for session in (large, *given):
            await self._ask(0, (session, LAST))

    def _there(self) -> int:
        app = self._world.app(self._broker)
        return 0 if app is None else len(app._fetch_sessions)

    async def _all_go_on(self, sessions: list[int], epoch: int) -> None:
        for session in sessions:
            error, _ = await self._ask(0, (session, epoch))
            if error is not ErrorCode.none:
                what = f"{error.name} to a session that has its slot"
                raise Violation(INVARIANT, f"broker {self._broker}: {what}")

    async def _gives_place(self, given: list[int]) -> None:
        await self._ask(0, (given.pop(), LAST))
        session = await self._begin(1)
        if session == NONE:
            raise Violation(INVARIANT, f"broker {self._broker}: a slot that was given up is taken")
        await self._all_go_on([session], 1)
        given.append(session)

    async def _makes_place(self, large: int, given: list[int], follower: BrokerId) -> None:
        """The follower has all that there is, as it is. Who leaves may be another consumer."""
        before = self._led[0].leader.replica.log_end_offset
        asked = fetch_request(
            [(self._led[0].tp, before)], LITTLE, replica=follower, session=(NONE, NEW)
        )
        answer = await answered(self._client, self._broker, asked)
        errors = [(await self._ask(0, (session, 2)))[0] for session in (*given, large)]
        gone = [error for error in errors if error is ErrorCode.fetch_session_id_not_found]
        if answer.session_id == NONE or len(gone) > 1 or errors[-1] is not ErrorCode.none:
            told = [error.name for error in errors]
            what = f"a follower is given {answer.session_id}, {told} are told to consumers"
            raise Violation(INVARIANT, f"broker {self._broker}: {what}, the last of whom has two")
        await self._ask(0, (answer.session_id, LAST))

    async def _begin(self, partitions: int) -> int:
        """A consumer's session of so many; its id."""
        _, session = await self._ask(partitions, (NONE, NEW))
        return session

    async def _ask(self, partitions: int, session: tuple[int, int]) -> tuple[ErrorCode, int]:
        asked = [(each.tp, each.start) for each in self._led[:partitions]]
        request = fetch_request(asked, LITTLE, replica=CONSUMER, session=session)
        answer = await answered(self._client, self._broker, request)
        return answer.error_code, answer.session_id
