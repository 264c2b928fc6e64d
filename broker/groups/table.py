"""What happens, by state and kind of event."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Commit,
    DeleteGroup,
    DeleteOffsets,
    Event,
    Expire,
    Heartbeat,
    Join,
    Leave,
    PartitionsDeleted,
    Request,
    Stored,
    Sync,
    Tick,
    refusal,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.pending import (
    Pending,
    PendingAssignments,
    PendingCommit,
    PendingEmptiness,
    PendingRemoval,
    PendingReturn,
)
from ackproof.broker.groups.requests import commits, joining, membership
from ackproof.broker.groups.state import GroupState

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


def _join(rejoin: joining.Rejoin) -> Step:
    return partial(joining.join, rejoin=rejoin)


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
        Join: _join(joining.rejoin_empty),
        Sync: _sync(membership.sync_preparing),
        Heartbeat: _heartbeat(ErrorCode.unknown_member_id),
        DeleteGroup: commits.delete_group,
    },
    GroupState.PREPARING_REBALANCE: {
        **_OF_EVERY_LIVING_STATE,
        Join: _join(joining.rejoin_preparing),
        Sync: _sync(membership.sync_preparing),
        Heartbeat: _heartbeat(ErrorCode.rebalance_in_progress),
    },
    GroupState.COMPLETING_REBALANCE: {
        **_OF_EVERY_LIVING_STATE,
        Join: _join(joining.rejoin_completing),
        Sync: _sync(membership.sync_completing),
        Heartbeat: _heartbeat(ErrorCode.none),
        Commit: _commit(commits.refuse_commit),
    },
    GroupState.STABLE: {
        **_OF_EVERY_LIVING_STATE,
        Join: _join(joining.rejoin_stable),
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
    PendingReturn: joining.settle_return,
    PendingCommit: commits.settle_commit,
    PendingRemoval: commits.settle_removal,
}
"""With what a group goes on when something is stored."""


def step(group: Group, event: Event) -> None:
    """Takes in one event; what follows from it is in the group's outbox."""
    STEPS[group.state][type(event)](group, event)
