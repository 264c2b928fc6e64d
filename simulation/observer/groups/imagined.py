"""What a group would do if something happened to it next that plans have seldom.

A member leaves while its JoinGroup waits, a static one comes back before its assignment is there,
time is over while a generation is being stored: each is a step, and held against all that steps are
held against (:mod:`~simulation.observer.groups.watch`), as a twin of the group takes it. Asked once
in a world for each shape that a group comes into.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    NO_MEMBER_ID,
    DeleteGroup,
    Effect,
    Event,
    Expire,
    Join,
    Leave,
    Leaving,
    Moment,
    Request,
    Stored,
    Tick,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.groups import Groups
from ackproof.broker.groups.members import Member
from ackproof.broker.types import Millis
from simulation.observer.groups import watch

Decide = Callable[[Groups, Event], tuple[Effect, ...]]

NOBODYS: Final = 2**40
"""A request, and an offset, that nobody has."""

LONG_MS: Final = 10**9
"""Longer than anybody waits for anything."""


class Imagined:
    """Of one world."""

    def __init__(self) -> None:
        self._met: set[object] = set()

    def after(self, groups: Groups, event: Event, decide: Decide) -> None:
        """``groups`` have taken ``event`` in, as ``decide`` says; raises Violation."""
        group = groups.by_id.get(event.group) if isinstance(event, Request) else None
        if group is None or (shape := _shape(group)) in self._met:
            return
        self._met.add(shape)
        for happens in _events(group, event.at):
            twin = _twin(groups, group)
            _step(twin, happens, decide)
            late = Moment(Millis(happens.at.now + LONG_MS), happens.at.wall_ms + LONG_MS)
            _step(twin, Tick(at=late), decide)


def _step(groups: Groups, event: Event, decide: Decide) -> None:
    known = watch.before(groups, event)
    watch.check(groups, event, decide(groups, event), known)


def _twin(groups: Groups, group: Group) -> Groups:
    """The group alone, and nobody hears of what it does."""
    twin, other = copy.copy(groups), copy.deepcopy(group)
    twin._groups = {group.group_id: other}
    twin._generations = dict(groups._generations)
    twin._storing = {
        t: (other, records) for t, (g, records) in groups._storing.items() if g is group
    }
    return twin


def _shape(group: Group) -> object:
    """Who waits for what."""
    members = frozenset(
        (m.is_static, m.join is not None, m.sync is not None, m.synced, m.is_new)
        for m in group.members
    )
    storing = frozenset(type(pending) for pending in group._storing.values())
    pending = bool(group.members.pending)
    return group.state, group._phase_ends is not None, pending, members, storing


def _events(group: Group, at: Moment) -> Iterator[Event]:
    """Each that may be the next one."""
    asked: dict[str, Any] = {"at": at, "request": NOBODYS, "group": group.group_id}
    yield DeleteGroup(**asked)
    yield Expire(at=at)
    ends = {member.deadline for member in group.members} | set(group.members.pending.values())
    if group._phase_ends is not None:
        ends.add(group._phase_ends)
    for end in sorted(ends):
        now = max(at.now, end)
        yield Tick(at=Moment(Millis(now), at.wall_ms + now - at.now))
    for member in group.members:
        yield Leave(**asked, leaving=(Leaving(member.member_id),))
        if member.is_static:
            yield _return(member, asked, NO_MEMBER_ID)
            for given in tuple(group.members.pending)[:1]:
                yield _return(member, asked, given)
    for token in tuple(group._storing)[:1]:
        yield Stored(at=at, token=token, error=ErrorCode.none, offset=NOBODYS)
        yield Stored(at=at, token=token, error=ErrorCode.request_timed_out)


def _return(member: Member, asked: dict[str, Any], member_id: str) -> Join:
    """A static member is started again, and says the same; or somebody else does, to whom an id
    was given."""
    return Join(
        **asked,
        member_id=member_id,
        instance_id=member.instance_id,
        new_member_id="imagined",
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type="consumer",
        protocols=member.protocols,
    )
