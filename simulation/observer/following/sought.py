"""**LeadersAreSought**: a follower asks its leader where that is said to be now, and not where it
was when the two last spoke.

A leader that comes back at another address mostly leads no more by then, and whoever follows it
once more begins anew. One that was alone in sync leads on; a follower that looks for it at its
former address leaves the ISR for good. So each fetcher is asked once where it would look if its
leader were somewhere else at this moment.
"""

import contextlib
import copy
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakSet

from ackproof.broker.config import Listener
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.replication.fetcher import Fetcher
from simulation.violation import Violation

Call = Callable[[Fetcher, Any], Awaitable[Any]]

ELSEWHERE: Final = Listener("in-no-plan", 9092)


class Sought:
    """All fetchers of one world."""

    def __init__(self) -> None:
        self._asked: WeakSet[Fetcher] = WeakSet()

    async def elsewhere(self, fetcher: Fetcher, call: Call, request: Any) -> None:
        """Has called its leader; raises Violation."""
        if fetcher in self._asked or fetcher._connection is None:
            return
        self._asked.add(fetcher)
        twin = copy.copy(fetcher)
        twin._locate = lambda _: ELSEWHERE
        twin._connection = BrokerConnection(*fetcher._connection._address, "nobody")
        with contextlib.suppress(Disconnected):
            await call(twin, request)
        check(twin, ELSEWHERE)


def check(fetcher: Fetcher, due: Listener) -> None:
    """It has asked its leader, which is said to be there; raises Violation."""
    connection = fetcher._connection
    if connection is not None and connection._address != due:
        what = f"broker {fetcher._config.id} looks for leader {fetcher._leader}"
        where = f"at {connection.name}, and it is at {due.host}:{due.port}"
        raise Violation("LeadersAreSought", f"{what} {where}")
