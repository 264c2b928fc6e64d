"""What a fetch session leaves out, and whom it serves first (KIP-227).

* **NamedAreFollowed**: by what a follower says, and by what it leaves out, its leader knows what it
  wants: all of it, from there, and nothing else. One that gives up a partition and takes another
  one on at once names as many as before; a leader that has not heard of the first answers for both,
  and the follower can do nothing with that.
* **BusyGoBehind**: when an answer is full, the partitions that had records are behind those that
  had none, which come first in the next one. Else those in front are read each time, and the
  followers of those behind them leave the ISR. That takes more records than plans have.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from ackproof.broker.replication.events import FetchFrom
from ackproof.broker.server.replication.fetch_session_cache import INITIAL_EPOCH
from ackproof.broker.server.replication.fetch_session_handler import FetchAsk, FetchSessionHandler
from ackproof.broker.types import NamedPartition, TopicIdPartition, TopicPartition
from simulation.violation import Violation

Wanted = Mapping[NamedPartition, FetchFrom]
Ask = Callable[[FetchSessionHandler, Wanted], FetchAsk]

NOWHERE: Final = (TopicPartition("in no plan", 0), TopicIdPartition(bytes(16), 0))
"""A partition that nobody follows: by its name, and by its id."""


class Named:
    """What the leaders of one world have been told by their followers."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._told: WeakKeyDictionary[FetchSessionHandler, Wanted] = WeakKeyDictionary()

    def asked(self, session: FetchSessionHandler, wanted: Wanted, said: FetchAsk) -> None:
        """What is ``wanted`` is ``said`` so; raises Violation.

        So it would be if another partition took the place of the first at this moment, which seldom
        happens between two fetches.
        """
        self._told[session] = _knows(self._told.get(session, {}), wanted, said)
        if wanted and said.session_epoch != INITIAL_EPOCH:
            first, *_ = wanted
            other = {name: todo for name, todo in wanted.items() if name != first}
            other[NOWHERE[said.by_id]] = wanted[first]
            _knows(self._told[session], other, self._ask(copy.copy(session), other))


def _knows(before: Wanted, wanted: Wanted, said: FetchAsk) -> Wanted:
    kept = {} if said.session_epoch == INITIAL_EPOCH else before
    knows = {name: todo for name, todo in kept.items() if name not in said.forgotten}
    knows.update(said.changed)
    if knows != wanted:
        named = sorted(map(str, knows.keys() ^ wanted.keys()))
        what = f"{named} are asked for, or wanted, and not both" if named else "other offsets"
        raise Violation("NamedAreFollowed", f"by a fetch session {what}")
    return knows


def answered(names: Iterable[NamedPartition], busy: Collection[NamedPartition]) -> None:
    """By a session that has ``names`` in this order, of which the ``busy`` ones had records now;
    raises Violation."""
    served = False
    for name in names:
        if served and name not in busy:
            what = f"{name} had no records, and those that had are read before it next time, too"
            raise Violation("BusyGoBehind", what)
        served = served or name in busy
