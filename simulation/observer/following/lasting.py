"""**BusyStay**: no newcomer takes the slot of a fetch session as an idle one's before two minutes
have passed in which nobody used it (KIP-227).

Runs are shorter than that, or have slots for all. So now and then, when a session is used, it is
asked who would be idle two minutes later, when this one would have had all its time, and no more.
"""

from typing import Final
from weakref import WeakKeyDictionary

from ackproof.broker.server.replication.fetch_session_cache import (
    MIN_EVICTION_MS,
    FetchSession,
    FetchSessionCache,
)
from ackproof.broker.types import Millis
from simulation.violation import Violation

EVERY: Final = 16
"""Requests of a session."""


class Used:
    """When which session was, by the requests that were seen."""

    def __init__(self) -> None:
        self._at: WeakKeyDictionary[FetchSessionCache, dict[int, Millis]] = WeakKeyDictionary()

    def asked(self, cache: FetchSessionCache, session: FetchSession, now: Millis) -> None:
        """In ``session``, just now; raises Violation."""
        used = self._at.setdefault(cache, {})
        used[session.id] = now
        if session.epoch % EVERY:
            return
        idle = cache._stale(Millis(now + MIN_EVICTION_MS))
        if idle is not None and used.get(idle.id, now) >= now:
            what = f"fetch session {idle.id} is used at {now} ms"
            raise Violation("BusyStay", f"{what}, and would count as idle {MIN_EVICTION_MS} later")
