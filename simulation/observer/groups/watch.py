"""Each step that a coordinator takes is held against what a group's members may count on."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from broker.groups.events import (
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
from broker.groups.group import Group
from broker.groups.groups import Groups, Records
from broker.wire.group_records import GroupMetadataKey
from simulation.observer.groups import members, newcomers, rebalances, refusals, stored
from simulation.observer.groups.step import DEAD, EMPTY, Step
from simulation.observer.groups.stored import ENDS
from simulation.observer.groups.view import View, of


class _Was(NamedTuple):
    """A group that a step is about; None: there is none, or was none."""

    name: str
    group: Group | None
    view: View
    records: Records
    """What is stored, or cannot be, by the step."""


Before = Sequence[_Was]


def before(groups: Groups, event: Event) -> Before:
    """To be asked for before each step."""
    return tuple(_about(groups, event))


def _about(groups: Groups, event: Event) -> Iterator[_Was]:
    if isinstance(event, Request):
        group = groups.by_id.get(event.group)
        yield _Was(event.group, group, of(group), ())
    elif isinstance(event, Stored):
        group, records = groups._storing[event.token]
        yield _Was(group.group_id, group, of(group), records)
    else:
        for name, group in groups.by_id.items():
            if _concerns(event, group):
                yield _Was(name, group, of(group), ())


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
    step.require(not is_gone or last not in groups._generations, ENDS, "it is gone, and not let go")
