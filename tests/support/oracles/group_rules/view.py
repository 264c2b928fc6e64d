"""The state of one group in its coordinator at one time, for comparisons."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ackproof.broker.groups.events import Protocol
from ackproof.broker.groups.group import SUBSCRIPTION_AT, Group
from ackproof.broker.groups.members import Member
from ackproof.broker.groups.offsets import CommittedOffset
from ackproof.broker.groups.pending import OffsetsDeletion, Pending, PendingCommit, PendingRemoval
from ackproof.broker.groups.state import GroupState
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ackproof.broker.wire.reader import UNREADABLE, Reader


class Seen(NamedTuple):
    """A member."""

    instance_id: str | None
    client: tuple[str, str]
    """Its id and its host, as people are told them."""
    session_ms: int
    rebalance_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes
    deadline: float
    join: int | None
    sync: int | None
    is_new: bool
    synced: bool
    """It has asked for its part of this generation."""

    @property
    def wants(self) -> tuple[object, ...]:
        """Return the fields that only the member's own JoinGroup changes."""
        return self.instance_id, self.client, self.session_ms, self.rebalance_ms, self.protocols


class View(NamedTuple):
    """A group."""

    state: GroupState
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: Mapping[str, Seen]
    given: Mapping[str, float]
    """Ids of those who have not joined with them yet, and when that is over."""
    offsets: Mapping[TopicPartition, CommittedOffset]
    storing: Mapping[int, Pending]
    ends: float | None
    """When those who are waited for have come, or are out."""
    extendable: int | None
    """While an empty group waits for newcomers: how much longer it may."""
    newcomers: bool
    """A member has come since it began to wait, or has waited again."""
    since_ms: int | None
    """When it came into its state."""

    @property
    def statics(self) -> dict[str, str]:
        """Member ids by instance id."""
        named = ((seen.instance_id, name) for name, seen in self.members.items())
        return {instance: name for instance, name in named if instance is not None}

    @property
    def timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members."""
        return max((seen.rebalance_ms for seen in self.members.values()), default=0)

    @property
    def waiting(self) -> Iterator[int]:
        """Requests without an answer yet."""
        for seen in self.members.values():
            yield from (asked for asked in (seen.join, seen.sync) if asked is not None)
        for pending in self.storing.values():
            match pending:
                case (
                    PendingCommit(event=event)
                    | PendingRemoval(purpose=OffsetsDeletion(event=event))
                ):
                    yield event.request
                case PendingRemoval(purpose=purpose) if purpose is not None:
                    yield from asker(purpose.event)


def asker(event: object) -> Iterator[int]:
    """The number of a request; none without a request."""
    number = getattr(event, "request", None)
    if number is not None:
        yield number


BLANK = View(GroupState.EMPTY, 0, None, None, None, {}, {}, {}, {}, None, None, False, None)


def of(group: Group | None) -> View:
    """Return the present state of the group; blank if it does not exist."""
    if group is None:
        return BLANK
    return View(
        group.state, group.generation, group.protocol_type, group.protocol, group.members.leader,
        {member.member_id: _seen(member) for member in group.members},
        dict(group.members.pending), dict(group.offsets.committed), dict(group._storing),
        group._phase_ends, group._extendable_ms, group._newcomers, group.since_ms,
    )  # fmt: skip


def _seen(member: Member) -> Seen:
    return Seen(
        member.instance_id, (member.client_id, member.client_host),
        member.session_timeout_ms, member.rebalance_timeout_ms, member.protocols,
        member.assignment, member.deadline, member.join, member.sync, member.is_new,
        member.synced,
    )  # fmt: skip


def subscribed(view: View) -> frozenset[str] | None:
    """The topics that its members want; None where they do not say so in a way that is known."""
    if view.protocol_type != "consumer" or view.protocol is None:
        return None
    parts = [p for seen in view.members.values() for p in seen.protocols if p.name == view.protocol]
    try:
        said = [
            ConsumerProtocolSubscription.read(Reader(p.metadata, SUBSCRIPTION_AT), 0) for p in parts
        ]
    except UNREADABLE:
        return None
    return frozenset(topic for each in said for topic in each.topics)


def part(seen: Seen, protocol: str | None) -> bytes:
    """Return the member's metadata for a protocol."""
    return next((each.metadata for each in seen.protocols if each.name == protocol), b"")
