"""Whose turn it is: what a connection commits is taken in as it came.

Before offsets are committed their topics may have to be looked up; where there is no controller,
ZooKeeper is asked. A consumer commits 5 of t and 3 of u, and then 6 of t. If u has to be looked up
and t has not, the second overtakes the first: both are answered without an error, and the group
goes on from 5. Kafka takes no request from a connection before the last one was answered
(``SocketServer`` mutes the channel). Here a commit waits until those before it are taken in, not
until they are stored. Nothing else waits: a member whose commit is held up by ZooKeeper lives, and
its heartbeats say so.
"""

import asyncio
from weakref import WeakValueDictionary

from ackproof.broker.server.network.connections import PEER


class Turns:
    """One turn at a time for each connection, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """Of the connections of which somebody has a turn, or waits for one."""

    def mine(self) -> asyncio.Lock:
        """To be held until the request that was started on this connection is taken in."""
        return self._locks.setdefault(PEER.get().connection, asyncio.Lock())
