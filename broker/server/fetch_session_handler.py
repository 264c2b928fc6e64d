"""Fetch sessions, the follower's end (KIP-227): what of all that is wanted has to be said.

The first request names everything. When the leader answers with a session, the next ones name what
changed since, until something goes wrong: then everything is said again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from broker.replication.events import FetchFrom
from broker.server.fetch_session_cache import INITIAL_EPOCH, NO_SESSION, epoch_after
from broker.types import TopicPartition


class FetchAsk(NamedTuple):
    """What one request says: ``changed`` is all there is when the session begins."""

    session_id: int
    session_epoch: int
    changed: Mapping[TopicPartition, FetchFrom]
    forgotten: tuple[TopicPartition, ...]


class FetchSessionHandler:
    """One session with one leader; requests are sent one after the other."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._said: dict[TopicPartition, FetchFrom] = {}

    def ask(self, wanted: Mapping[TopicPartition, FetchFrom]) -> FetchAsk:
        """The next request, by which the leader will know of all that is ``wanted``."""
        changed = dict(wanted)
        forgotten: tuple[TopicPartition, ...] = ()
        if self._epoch != INITIAL_EPOCH:
            changed = {tp: todo for tp, todo in wanted.items() if self._said.get(tp) != todo}
            forgotten = tuple(tp for tp in self._said if tp not in wanted)
        self._said = dict(wanted)
        return FetchAsk(self._id, self._epoch, changed, forgotten)

    def answered(self, response: Any) -> None:
        """The leader answered: with the session, without one, or that it knows of none."""
        if response.error_code is ErrorCode.fetch_session_id_not_found:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif response.error_code is not ErrorCode.none:
            self.interrupted()
        elif response.session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._id = response.session_id
            self._epoch = epoch_after(self._epoch)

    def interrupted(self) -> None:
        """Nobody knows what the leader heard: it is told everything anew, and closes the old."""
        self._epoch = INITIAL_EPOCH
