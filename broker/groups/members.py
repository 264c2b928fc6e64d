"""The members of one group: who they are, who leads, what they agree on."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import JoinedMember, Protocol
from ackproof.broker.types import Millis


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. ``deadline`` is when its session ends unless it is heard of."""

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
    """It has not been in a generation yet, so its session runs even while it waits to join."""
    join: int | None = None
    """Its JoinGroup that waits for an answer."""
    sync: int | None = None
    """Its SyncGroup that waits for an answer."""
    synced: bool = False
    """It has asked for its assignment of this generation, or nobody waits for it to: it came back
    in the middle of one, or was loaded with it."""

    @property
    def is_static(self) -> bool:
        """It has an instance id and outlives its client's restarts (KIP-345)."""
        return self.instance_id is not None

    @property
    def must_heartbeat(self) -> bool:
        """Members that wait for the coordinator are alive, new ones excepted."""
        return self.is_new or (self.join is None and self.sync is None)

    def metadata(self, protocol: str | None) -> bytes:
        """Its part in ``protocol``; empty if it does not support it."""
        return next((p.metadata for p in self.protocols if p.name == protocol), b"")


@dataclass(slots=True)
class Members:
    """Members by id. At most one of them has any instance id; one leads if there are any."""

    leader: str | None = None
    pending: dict[str, Millis] = field(default_factory=dict)
    """Ids given to those who have not joined with them yet, and when to forget them."""
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
        """The member id of a static member."""
        return None if instance_id is None else self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether a request may speak for that member."""
        if instance_id is not None and self.id_of(instance_id) not in (None, member_id):
            return ErrorCode.fenced_instance_id
        is_known = member_id in self and (
            instance_id is None or self.id_of(instance_id) == member_id
        )
        return ErrorCode.none if is_known else ErrorCode.unknown_member_id

    def add(self, member: Member) -> None:
        """A newcomer; leads if nobody does."""
        assert member.member_id not in self._by_id
        assert self.id_of(member.instance_id) is None
        self.pending.pop(member.member_id, None)
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        """It is gone; another one leads if it did."""
        member = self._by_id.pop(member_id)
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        return member

    def rename(self, old: str, new: str) -> Member:
        """The static member ``old`` is back under a new id; its place stays its own."""
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
        """As long as the slowest member wants; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    @property
    def all_joined(self) -> bool:
        """Nobody is missing for the next generation."""
        return not self.pending and all(member.join is not None for member in self)

    def elect_joined_leader(self) -> bool:
        """Makes one lead who has joined, the present leader if it has; False if nobody has."""
        if self.leader is not None and self[self.leader].join is not None:
            return True
        joined = next((member.member_id for member in self if member.join is not None), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def supports(self, protocols: tuple[Protocol, ...]) -> bool:
        """Whether there is one among ``protocols`` that every member supports."""
        return any(protocol.name in self._common() for protocol in protocols)

    def liked_best(self) -> tuple[str, ...]:
        """Those most members prefer, of those that all support; several where votes are equal, the
        first of them that of who came first."""
        common = self._common()
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in common)
            for member in self
        )
        most = max(votes.values())
        return tuple(name for name, count in votes.items() if count == most)

    def joined(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """All members as the leader is shown them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol))
            for member in self
        )

    def _common(self) -> set[str]:
        names = [{protocol.name for protocol in member.protocols} for member in self]
        return set.intersection(*names) if names else set()
