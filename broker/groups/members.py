"""The members of one group, their leader, and their common protocol."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import JoinedMember, Protocol
from ackproof.broker.types import Millis


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. ``deadline`` is when its session ends unless it sends a request."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    deadline: Millis
    assignment: bytes = b""
    is_new: bool = False
    """Whether it has not been in a generation yet. Its session then runs even while it waits to
    join."""
    join: int | None = None
    """The number of its waiting JoinGroup."""
    sync: int | None = None
    """The number of its waiting SyncGroup."""
    synced: bool = False
    """Whether it has requested its assignment of this generation. True also if that is not
    expected: it returned in the middle of the generation, or was loaded with it."""

    @property
    def is_static(self) -> bool:
        """Whether it has an instance id and outlives its client's restarts (KIP-345)."""
        return self.instance_id is not None

    @property
    def must_heartbeat(self) -> bool:
        """Whether its session runs. Members that wait for the coordinator are alive, except new
        ones."""
        return self.is_new or (self.join is None and self.sync is None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata for ``protocol``, empty if it does not support it."""
        return next((p.metadata for p in self.protocols if p.name == protocol), b"")


@dataclass(slots=True)
class Members:
    """The members by id. An instance id has at most one member. One member leads if there are
    any."""

    leader: str | None = None
    pending: dict[str, Millis] = field(default_factory=dict)
    """The ids given to members that have not joined with them yet, and when to forget them."""
    _by_id: dict[str, Member] = field(default_factory=dict)
    _static: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def id_of(self, instance_id: str | None) -> str | None:
        """Return the member id of a static member, or None."""
        return None if instance_id is None else self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return the error if a request may not speak for that member, or ``none``."""
        if instance_id is not None and self.id_of(instance_id) not in (None, member_id):
            return ErrorCode.fenced_instance_id
        is_known = member_id in self and (
            instance_id is None or self.id_of(instance_id) == member_id
        )
        return ErrorCode.none if is_known else ErrorCode.unknown_member_id

    def add(self, member: Member) -> None:
        """Add a new member, which leads if there is no leader."""
        assert member.member_id not in self._by_id
        assert self.id_of(member.instance_id) is None
        self.pending.pop(member.member_id, None)
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member. If it led, another one leads."""
        member = self._by_id.pop(member_id)
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        return member

    def rename(self, old: str, new: str) -> Member:
        """Rename the static member ``old``, which returned under a new id and keeps its place."""
        member = self._by_id.pop(old)
        assert member.instance_id is not None
        member.member_id = new
        self._by_id[new] = member
        self._static[member.instance_id] = new
        if self.leader == old:
            self.leader = new
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, 0 without members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    @property
    def all_joined(self) -> bool:
        """Whether no member is missing for the next generation."""
        return not self.pending and all(member.join is not None for member in self)

    def elect_joined_leader(self) -> bool:
        """Choose a leader that has joined, the present one if it has. Return False if no member
        has."""
        if self.leader is not None and self[self.leader].join is not None:
            return True
        joined = next((member.member_id for member in self if member.join is not None), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def supports(self, protocols: tuple[Protocol, ...]) -> bool:
        """Return whether one of ``protocols`` is supported by every member."""
        return any(protocol.name in self._common() for protocol in protocols)

    def preferred_protocols(self) -> tuple[str, ...]:
        """Return the protocols that most members prefer, of those that all support.

        There are several if votes are equal, and the first is then that of the earliest member.
        """
        common = self._common()
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in common)
            for member in self
        )
        most = max(votes.values())
        return tuple(name for name, count in votes.items() if count == most)

    def joined(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """Return all members in the form in which the leader sees them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol))
            for member in self
        )

    def _common(self) -> set[str]:
        names = [{protocol.name for protocol in member.protocols} for member in self]
        return set.intersection(*names) if names else set()
