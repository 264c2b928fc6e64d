"""Each step that a coordinator takes is held against what a group's members may count on.

**SaidAnewAsStored**: a rewritten log says of each group what was stored of it last, and
nothing that could not be stored. A failed write is unknown to the next coordinator; and few
logs move to another disk, or are cleaned, just behind a store that fails.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Effect,
    Event,
    Expire,
    PartitionsDeleted,
    Request,
    Respond,
    Store,
    Stored,
    Tick,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.groups import Groups, Records
from ackproof.broker.wire.group_records import GroupMetadataKey, Value
from tests.support.oracles.group_rules import members, newcomers, rebalances, refusals, stored
from tests.support.oracles.group_rules.step import DEAD, EMPTY, Step
from tests.support.oracles.group_rules.stored import ENDS
from tests.support.oracles.group_rules.view import View, of

SAID_ANEW: Final = "SaidAnewAsStored"


class _Was(NamedTuple):
    """A group that a step is about; None: there is none, or was none."""

    name: str
    group: Group | None
    view: View
    records: Records
    """What is stored, or cannot be, by the step."""
    generation: Value | None
    """The records of a rewritten log."""


Before = Sequence[_Was]


def before(groups: Groups, event: Event) -> Before:
    """To be asked for before each step."""
    return tuple(_about(groups, event))


def _about(groups: Groups, event: Event) -> Iterator[_Was]:
    if isinstance(event, Request):
        group = groups.by_id.get(event.group)
        yield _was(groups, event.group, group)
    elif isinstance(event, Stored):
        group, records = groups._storing[event.token]
        yield _was(groups, group.group_id, group, records)
    else:
        for name, group in groups.by_id.items():
            if _concerns(event, group):
                yield _was(groups, name, group)


def _was(groups: Groups, name: str, group: Group | None, records: Records = ()) -> _Was:
    said = groups._generations.get(GroupMetadataKey(group=name))
    return _Was(name, group, of(group), records, said)


def _concerns(event: Event, group: Group) -> bool:
    """Time goes by for those only who wait for something."""
    idle = group.state in (EMPTY, DEAD) and not group.members.pending
    return isinstance(event, Expire | PartitionsDeleted) or (isinstance(event, Tick) and not idle)


def check(groups: Groups, event: Event, effects: Sequence[Effect], known: Before) -> None:
    """It took that in, and the effects follow; raises Violation."""
    for was in known:
        _check(groups, event, effects, was)


def _check(groups: Groups, event: Event, effects: Sequence[Effect], was: _Was) -> None:
    there = groups.by_id.get(was.name)
    group = was.group or there
    after = of(group)
    told = {each.request: each.answer for each in effects if isinstance(each, Respond)}
    stores = [each for each in effects if isinstance(each, Store)]
    if not isinstance(event, Request | Stored):  # all groups' effects are together
        asked = {*was.view.waiting}
        told = {number: answer for number, answer in told.items() if number in asked}
        stores = [each for each in stores if each.token in after.storing]
    error, config = ErrorCode.none, groups._config
    if isinstance(event, Request):
        first = None if was.group is None else was.view
        error = refusals.check(was.name, config, first, after, event, told.get(event.request))
    step = Step(was.name, config, was.view, after, event, error, told)
    if DEAD not in (was.view.state, after.state):
        members.check(step)
        rebalances.check(step)
        newcomers.check(step)
    is_gone = there is not group or group is None
    stored.check(step, stores, was.records, is_gone=is_gone)
    last = GroupMetadataKey(group=was.name)
    said = groups._generations.get(last)
    is_let_go = last not in groups._generations
    step.require(not is_gone or is_let_go, ENDS, "it is gone, and not let go")
    due = was.generation
    if isinstance(event, Stored) and event.error is ErrorCode.none:
        due = dict(was.records).get(last, due)
    step.require(said == due, SAID_ANEW, f"{due} is stored, and a rewritten log says {said}")
