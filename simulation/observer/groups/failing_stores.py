"""**AnsweredIsStored**, of a store that fails: nobody would be told that it had been stored, and
nothing of it would be committed.

A store fails when followers are too slow, or too few, or when its leader is deposed: seldom while
somebody asks, and whether the next coordinator has it all the same is a matter of luck. So the
first store of each kind in each group is looked at as if it had failed, by a twin of the group.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Effect, OffsetsAnswer, Respond, Stored, SyncAnswer
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.groups import Groups
from ackproof.broker.groups.table import step
from simulation.violation import Violation

FAILURES: Final = (
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.not_leader_or_follower,
)


class FailingStores:
    """Of all coordinators."""

    def __init__(self) -> None:
        self._looked_at: WeakKeyDictionary[Groups, set[tuple[str, type]]] = WeakKeyDictionary()

    def before(self, groups: Groups, event: Stored) -> None:
        """It is about to be taken in; raises Violation."""
        group, records = groups._storing[event.token]
        looked_at = self._looked_at.setdefault(groups, set())
        kinds = {(group.group_id, type(key)) for key, _ in records} - looked_at
        if kinds:
            looked_at |= kinds
            for error in FAILURES:
                _fails(group, replace(event, error=error, offset=-1))


def _fails(group: Group, event: Stored) -> None:
    twin = deepcopy(group)
    step(twin, event)
    what = f"a store of group {group.group_id} that fails with {event.error.name}"
    told = [
        each for effect in twin.drain() if isinstance(effect, Respond) for each in _good(effect)
    ]
    if told:
        raise Violation("AnsweredIsStored", f"{what} would be answered as if it had not: {told[0]}")
    if twin.offsets.committed != group.offsets.committed:
        raise Violation("AnsweredIsStored", f"{what} would be committed all the same")


def _good(effect: Effect) -> Iterator[str]:
    match effect:
        case Respond(answer=OffsetsAnswer(error=ErrorCode.none, partitions=partitions)):
            yield from (str(tp) for tp, error in partitions.items() if error is ErrorCode.none)
        case Respond(answer=SyncAnswer(error=ErrorCode.none)):
            yield "who waited for an assignment"
        case _:
            pass
