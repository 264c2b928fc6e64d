"""All groups of one partition of ``__consumer_offsets``: events in, effects out.

A group exists here from its first JoinGroup or commit until nothing is left of it. This module
decides which requests create a group. The group decides everything else.
"""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.groups import commits, membership, offsets
from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import (
    NO_GENERATION,
    NO_MEMBER_ID,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    Effect,
    Event,
    Expire,
    Heartbeat,
    Join,
    Leave,
    LeaveAnswer,
    Moment,
    PartitionsDeleted,
    Request,
    Respond,
    Store,
    Stored,
    Sync,
    Tick,
    refusal,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.loading import Loading
from ackproof.broker.groups.pending import (
    Pending,
    PendingAssignments,
    PendingCommit,
    PendingEmptiness,
    PendingRemoval,
    PendingReturn,
)
from ackproof.broker.groups.state import GroupState
from ackproof.broker.wire.group_records import GroupMetadataKey, Key, Value

Records: TypeAlias = tuple[tuple[Key, Value | None], ...]


class Groups:
    """Groups by id, as restored by ``loading``."""

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
        """All groups."""
        return MappingProxyType(self._groups)

    def check(self) -> None:
        """Assert what must hold of each group after every step. Raise BrokenInvariant otherwise."""
        for group in self._groups.values():
            group.check()

    def step(self, event: Event) -> tuple[Effect, ...]:
        """Process one event. Its effects must be carried out in order."""
        if isinstance(event, Stored):
            return self._stored(event)
        if isinstance(event, Request):
            return self._request(event)
        fed = [self._feed(group, event) for group in tuple(self._groups.values())]
        return tuple(itertools.chain.from_iterable(fed))

    def snapshot(self) -> Records:
        """Return records with which a log may begin, instead of everything that was stored or is
        being stored. If a record that is being stored fails, its outcome was uncertain anyhow."""
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
    """Return the error for a request that cannot create a group, or ``none`` if it can."""
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
    """Return whether nothing is known of the group, here or in the log."""
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


# --- what handles which event ---------------------------------------------------------------------
#
# The action for each state and kind of event.


Step: TypeAlias = Callable[[Group, Any], None]


def _stored(group: Group, event: Stored) -> None:
    pending = group.stored(event.token)
    AFTER[type(pending)](group, event, pending)


def _tick(group: Group, event: Tick) -> None:
    group.tick(event.at)


def _too_late(group: Group, event: Request) -> None:
    group.respond(event.request, refusal(event, ErrorCode.coordinator_not_available))


def _ignore(_group: Group, _event: Event) -> None:
    pass


def _join(rejoin: membership.Rejoin) -> Step:
    return partial(membership.join, rejoin=rejoin)


def _sync(step: membership.SyncStep) -> Step:
    return partial(membership.sync, step=step)


def _heartbeat(answer: ErrorCode) -> Step:
    return partial(membership.heartbeat, answer=answer)


def _commit(step: commits.CommitStep) -> Step:
    return partial(commits.commit, step=step)


_OF_EVERY_LIVING_STATE: Final[Mapping[type[Event], Step]] = {
    Leave: membership.leave,
    Commit: _commit(commits.store_commit),
    DeleteOffsets: commits.delete_offsets,
    DeleteGroup: commits.refuse_to_delete,
    PartitionsDeleted: commits.drop_partitions,
    Expire: commits.expire,
    Tick: _tick,
    Stored: _stored,
}

STEPS: Final[Mapping[GroupState, Mapping[type[Event], Step]]] = {
    GroupState.EMPTY: {
        **_OF_EVERY_LIVING_STATE,
        Join: _join(membership.rejoin_empty),
        Sync: _sync(membership.sync_preparing),
        Heartbeat: _heartbeat(ErrorCode.unknown_member_id),
        DeleteGroup: commits.delete_group,
    },
    GroupState.PREPARING_REBALANCE: {
        **_OF_EVERY_LIVING_STATE,
        Join: _join(membership.rejoin_preparing),
        Sync: _sync(membership.sync_preparing),
        Heartbeat: _heartbeat(ErrorCode.rebalance_in_progress),
    },
    GroupState.COMPLETING_REBALANCE: {
        **_OF_EVERY_LIVING_STATE,
        Join: _join(membership.rejoin_completing),
        Sync: _sync(membership.sync_completing),
        Heartbeat: _heartbeat(ErrorCode.none),
        Commit: _commit(commits.refuse_commit),
    },
    GroupState.STABLE: {
        **_OF_EVERY_LIVING_STATE,
        Join: _join(membership.rejoin_stable),
        Sync: _sync(membership.sync_stable),
        Heartbeat: _heartbeat(ErrorCode.none),
    },
    GroupState.DEAD: {
        Join: _too_late,
        Sync: _too_late,
        Heartbeat: _too_late,
        Leave: _too_late,
        Commit: _too_late,
        DeleteOffsets: _too_late,
        DeleteGroup: _too_late,
        PartitionsDeleted: _ignore,
        Expire: _ignore,
        Tick: _ignore,
        Stored: _stored,
    },
}

AFTER: Final[Mapping[type[Pending], Callable[[Group, Stored, Any], None]]] = {
    PendingEmptiness: lambda _group, _stored, _pending: None,
    PendingAssignments: membership.give_out,
    PendingReturn: membership.settle_return,
    PendingCommit: commits.settle_commit,
    PendingRemoval: commits.settle_removal,
}
"""The continuation for each kind of stored record."""


def step(group: Group, event: Event) -> None:
    """Process one event. The effects are in the group's outbox."""
    STEPS[group.state][type(event)](group, event)
