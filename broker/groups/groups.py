"""All groups of one partition of ``__consumer_offsets``: events in, effects out.

A group is here from its first JoinGroup or commit on until nothing is left of it. Which requests
make a group is decided here, everything else by the group.
"""

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.groups import offsets
from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import (
    NO_GENERATION,
    NO_MEMBER_ID,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    Effect,
    Event,
    Join,
    Leave,
    LeaveAnswer,
    Moment,
    Request,
    Respond,
    Store,
    Stored,
    refusal,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.loading import Loading
from ackproof.broker.groups.state import GroupState
from ackproof.broker.groups.table import step
from ackproof.broker.wire.group_records import GroupMetadataKey, Key, Value

Records: TypeAlias = tuple[tuple[Key, Value | None], ...]


class Groups:
    """Groups by id, as ``loading`` left them."""

    def __init__(self, config: GroupConfig, loading: Loading, at: Moment) -> None:
        self._config = config
        self._tokens = itertools.count()
        self._groups = dict(loading.finish(config, self._tokens, at))
        self._generations: dict[Key, Value] = dict(loading.generations)
        self._storing: dict[int, tuple[Group, Records]] = {}

    def __getitem__(self, group_id: str) -> Group:
        return self._groups[group_id]

    @property
    def by_id(self) -> Mapping[str, Group]:
        """Every group there is."""
        return MappingProxyType(self._groups)

    def check(self) -> None:
        """Assert what holds of each group after every step; raises BrokenInvariant."""
        for group in self._groups.values():
            group.check()

    def step(self, event: Event) -> tuple[Effect, ...]:
        """Takes in one event; its effects must be carried out in order."""
        if isinstance(event, Stored):
            return self._stored(event)
        if isinstance(event, Request):
            return self._request(event)
        fed = [self._feed(group, event) for group in tuple(self._groups.values())]
        return tuple(itertools.chain.from_iterable(fed))

    def snapshot(self) -> Records:
        """All there is, such as a log may begin with: it says what everything said that was stored
        or is on its way. What was on its way and then fails was in doubt anyhow."""
        records: dict[Key, Value | None] = dict(self._generations)
        for group in self._groups.values():
            records.update(_offset_records(group))
        for _, stored in self._storing.values():
            records.update(stored)
        return tuple((key, value) for key, value in records.items() if value is not None)

    def _request(self, event: Request) -> tuple[Effect, ...]:
        group = self._groups.get(event.group)
        if group is None:
            error = _unknown_group(event)
            if error is not ErrorCode.none:
                return (_refuse(event, error),)
            group = self._groups[event.group] = Group(event.group, self._config, self._tokens)
        return self._feed(group, event)

    def _stored(self, event: Stored) -> tuple[Effect, ...]:
        group, records = self._storing.pop(event.token)
        if event.error is ErrorCode.none:
            self._note_generations(records)
        return self._feed(group, event)

    def _note_generations(self, records: Records) -> None:
        for key, value in records:
            if isinstance(key, GroupMetadataKey):
                if value is None:
                    self._generations.pop(key, None)
                else:
                    self._generations[key] = value

    def _feed(self, group: Group, event: Event) -> tuple[Effect, ...]:
        step(group, event)
        effects = group.drain()
        for effect in effects:
            if isinstance(effect, Store):
                self._storing[effect.token] = group, effect.records
        is_gone = group.state is GroupState.DEAD and not group.is_storing
        if is_gone or _is_blank(group):
            self._groups.pop(group.group_id, None)
        return effects


def _unknown_group(event: Request) -> ErrorCode:
    """What a request is told that does not make a group."""
    match event:
        case Join():
            new = event.member_id == NO_MEMBER_ID
            return ErrorCode.none if new else ErrorCode.unknown_member_id
        case Commit():
            simple = event.generation <= NO_GENERATION
            return ErrorCode.none if simple else ErrorCode.illegal_generation
        case DeleteGroup() | DeleteOffsets():
            return ErrorCode.group_id_not_found
        case _:
            return ErrorCode.unknown_member_id


def _refuse(event: Request, error: ErrorCode) -> Respond:
    if isinstance(event, Leave):
        answer = LeaveAnswer(members=(error,) * len(event.leaving))
        return Respond(request=event.request, answer=answer)
    return Respond(request=event.request, answer=refusal(event, error))


def _is_blank(group: Group) -> bool:
    """Nothing is known of it, here or in the log."""
    return (
        group.state is GroupState.EMPTY
        and group.generation == 0
        and not group.members.pending
        and not group.is_storing
        and len(group.offsets) == 0
    )


def _offset_records(group: Group) -> Records:
    return tuple(
        (
            offsets.key(group.group_id, tp),
            offsets.value(committed.value, committed.committed_ms),
        )
        for tp, committed in group.offsets.committed.items()
    )
