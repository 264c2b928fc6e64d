"""Fetch sessions, the follower's end (KIP-227): what of all that is wanted has to be said.

The first request names everything. When the leader answers with a session, the next ones name what
changed since, until something goes wrong: then everything is said again.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.events import FetchFrom
from ackproof.broker.server.replication.fetch_session_cache import (
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    epoch_after,
)
from ackproof.broker.types import NamedPartition, TopicIdPartition
from ackproof.broker.wire.messages.fetch import FetchResponse


class FetchAsk(NamedTuple):
    """What one request says: ``changed`` is all there is when the session begins."""

    session_id: int
    session_epoch: int
    changed: Mapping[NamedPartition, FetchFrom]
    forgotten: tuple[NamedPartition, ...]
    by_id: bool = False
    """All of these name topics by their ids; else all by their names."""


class FetchSessionHandler:
    """One session with one leader; requests are sent one after the other."""

    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._requested: dict[NamedPartition, FetchFrom | None] = {}
        self._by_id = False

    def ask(self, wanted: Mapping[NamedPartition, FetchFrom]) -> FetchAsk:
        """The next request, by which the leader will know of all that is ``wanted``: either all
        of it by ids, or all by names. A session has one of the two."""
        by_id = isinstance(next(iter(wanted), None), TopicIdPartition)
        if by_id != self._by_id:
            self._by_id = by_id
            self.interrupted()
        changed = wanted
        forgotten: tuple[NamedPartition, ...] = ()
        if self._epoch != INITIAL_EPOCH:
            before = self._requested
            changed = {name: todo for name, todo in wanted.items() if before.get(name) != todo}
            if before.keys() != wanted.keys():
                forgotten = tuple(name for name in before if name not in wanted)
        self._requested = dict(wanted)
        return FetchAsk(self._id, self._epoch, changed, forgotten, by_id)

    def answered(self, response: FetchResponse) -> None:
        """The leader answered: with the session, without one, or that it knows of none."""
        if response.error_code is ErrorCode.fetch_session_id_not_found:
            self._id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        elif response.error_code is not ErrorCode.none:
            self.interrupted()
        elif response.session_id == INVALID_SESSION_ID:
            self._id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        else:
            self._id = response.session_id
            self._epoch = epoch_after(self._epoch)

    def passed_over(self, name: NamedPartition) -> None:
        """What was answered of it was not taken: it is named again, and all told anew.

        A damaged batch came with a watermark of 41: the leader would leave 41 out from then on.
        """
        self._requested[name] = None

    def interrupted(self) -> None:
        """Nobody knows what the leader heard: it is told everything anew, and closes the old."""
        self._epoch = INITIAL_EPOCH
