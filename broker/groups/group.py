"""One group: its state, its members, its offsets, and its rebalances.

Follows ``GroupCoordinator`` of Kafka 3.x (KIP-62, KIP-134, KIP-345, KIP-394). The steps of a
rebalance:

- ``prepare_rebalance``: all members must join. An empty group waits for more (KIP-134).
- ``advance_join``: all have joined, or the time is over. The next generation begins.
- Sync of the leader: assignments are stored, then given to the members. The group is Stable.

This module has the changes of a group. :mod:`broker.groups.groups` has the table of requests and
states. All decisions go to an outbox. Not handled: the consumer protocol of KIP-848, and offsets
committed in transactions.
"""

from collections.abc import Iterator, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import (
    NO_MEMBER_ID,
    Answer,
    Effect,
    JoinAnswer,
    Moment,
    Respond,
    Store,
    SyncAnswer,
)
from ackproof.broker.groups.members import Member, Members
from ackproof.broker.groups.offsets import Offsets
from ackproof.broker.groups.pending import Pending, PendingEmptiness
from ackproof.broker.groups.state import BEFORE, GroupState
from ackproof.broker.invariants import require
from ackproof.broker.types import Millis
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    MemberMetadata,
    Value,
)
from ackproof.broker.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ackproof.broker.wire.reader import UNREADABLE, Reader

CONSUMER_PROTOCOL = "consumer"
SUBSCRIPTION_AT = 2
"""The position of those fields of a member's metadata that every version has. They follow an int16
with the version."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""The time for which a new member may wait for its first generation, as in Kafka. It has no session
yet, and its client may have given up and started again."""


class Group:
    """One group, at first ``EMPTY`` and without a generation.

    Args:
        tokens: the source of the numbers of :class:`Store`.
    """

    def __init__(self, group_id: str, config: GroupConfig, tokens: Iterator[int]) -> None:
        self.group_id = group_id
        self.config = config
        self.state = GroupState.EMPTY
        self.since_ms: int | None = None
        """The time at which it entered this state, in ms since 1970."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Members()
        self.offsets = Offsets()
        self._tokens = tokens
        self._outbox: list[Effect] = []
        self._storing: dict[int, Pending] = {}
        self._phase_ends: Millis | None = None
        self._extendable_ms: int | None = None
        self._newcomers = False

    # --- outbox -----------------------------------------------------------------------------

    def drain(self) -> tuple[Effect, ...]:
        """Return the effects since the last call."""
        effects, self._outbox = tuple(self._outbox), []
        return effects

    def respond(self, request: int, answer: Answer) -> None:
        """Answer a request."""
        self._outbox.append(Respond(request=request, answer=answer))

    def store(self, records: tuple[tuple[Key, Value | None], ...], pending: Pending) -> None:
        """Have records stored. ``pending`` is the continuation when they are stored, or
        cannot be."""
        token = next(self._tokens)
        self._storing[token] = pending
        self._outbox.append(Store(token=token, records=records))

    def stored(self, token: int) -> Pending:
        """Return and forget the continuation of :meth:`store`."""
        return self._storing.pop(token)

    @property
    def is_storing(self) -> bool:
        """Whether records are being stored."""
        return bool(self._storing)

    def check(self) -> None:
        """Assert what must hold after every step. Raise BrokenInvariant otherwise.

        One member leads if there is any, and no two have the same instance id. Without members the
        group is empty, dead or about to be empty. Within a generation all members know the chosen
        protocol.
        """
        me, members = f"group {self.group_id}", list(self.members)
        leader = self.members.leader
        leads = leader in self.members if members and leader is not None else leader is None
        require(leads and bool(members) == (leader is not None), f"{leader} leads", of=me)
        instances = [each.instance_id for each in members if each.is_static]
        require(len(instances) == len(set(instances)), f"{instances} are not unique", of=me)
        state = self.state
        settled = state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        gone = state in (GroupState.EMPTY, GroupState.DEAD)
        require(not (gone and members), f"{state.value}, with {len(members)} members", of=me)
        require(bool(members) or not settled, f"{state.value}, without members", of=me)
        known = all(any(p.name == self.protocol for p in each.protocols) for each in members)
        require(known or not settled, f"{self.protocol} is not every member's protocol", of=me)

    # --- states -----------------------------------------------------------------------------

    def enter(self, state: GroupState, at: Moment) -> None:
        """Change the state."""
        self._change(state)
        self.since_ms = at.wall_ms

    def die(self) -> None:
        """Begin the group's end. No member can join any more."""
        self._change(GroupState.DEAD)

    def live_on(self) -> None:
        """Return to empty, because the end of the group could not be stored."""
        self._change(GroupState.EMPTY)

    def _change(self, state: GroupState) -> None:
        assert self.state in BEFORE[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state

    def prepare_rebalance(self, at: Moment) -> None:
        """Ask all members to join, unless that has begun, and continue if all have."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._call_to_join(at)
        self.advance_join(at)

    def _call_to_join(self, at: Moment) -> None:
        for member in self.members:
            self.end_wait(member, SyncAnswer(error=ErrorCode.rebalance_in_progress), at)
        timeout_ms = self.members.rebalance_timeout_ms
        delay_ms = self.config.initial_rebalance_delay_ms
        self._newcomers = False
        if self.state is GroupState.EMPTY:
            self._extendable_ms = max(timeout_ms - delay_ms, 0)
            self._phase_ends = Millis(at.now + delay_ms)
        else:
            self._extendable_ms = None
            self._phase_ends = Millis(at.now + timeout_ms)
        self.enter(GroupState.PREPARING_REBALANCE, at)

    def advance_join(self, at: Moment) -> None:
        """Begin the next generation if no member is missing or the time is over."""
        assert self.state is GroupState.PREPARING_REBALANCE
        assert self._phase_ends is not None
        if at.now < self._phase_ends:
            if self._extendable_ms is None and self.members.all_joined:
                self._complete_join(at)
        elif self._newcomers and self._extendable_ms:
            delay_ms = min(self.config.initial_rebalance_delay_ms, self._extendable_ms)
            self._extendable_ms -= delay_ms
            self._newcomers = False
            self._phase_ends = Millis(at.now + delay_ms)
        else:
            self._complete_join(at)

    def _complete_join(self, at: Moment) -> None:
        for member in self.members:
            if member.join is None and not member.is_static:
                self._dismiss(member.member_id)
        if len(self.members) == 0:
            self._become_empty(at)
        elif self.members.elect_joined_leader():
            self._begin_generation(at)
        else:  # only silent static members, whose sessions decide
            self._extendable_ms = None
            self._phase_ends = Millis(at.now + self.members.rebalance_timeout_ms)

    def _become_empty(self, at: Moment) -> None:
        self._phase_ends = None
        self.generation += 1
        self.protocol = None
        self.enter(GroupState.EMPTY, at)
        self.store((self.record(at),), PendingEmptiness())

    def _begin_generation(self, at: Moment) -> None:
        self.generation += 1
        self.protocol = self.members.preferred_protocols()[0]
        self._phase_ends = Millis(at.now + self.members.rebalance_timeout_ms)
        self.enter(GroupState.COMPLETING_REBALANCE, at)
        for member in self.members:
            member.assignment = b""
            member.synced = member.is_new = False
            self.touch(member, at)
            self.answer_join(member, self.joined(member))

    def assign(self, assignments: Mapping[str, bytes], at: Moment) -> None:
        """Give out the generation's assignments, which are stored."""
        self.enter(GroupState.STABLE, at)
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
            self.end_wait(member, self.assigned(member), at)

    # --- members ----------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str, at: Moment) -> None:
        """Add a new member, and begin a rebalance."""
        if len(self.members) == 0:
            self.protocol_type = protocol_type
        member.is_new = True
        member.deadline = Millis(at.now + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.members.add(member)
        if self.state is GroupState.PREPARING_REBALANCE and self.generation == 0:
            self._newcomers = True
        self.prepare_rebalance(at)

    def remove(self, member_id: str, at: Moment) -> None:
        """Remove a member that left or whose session ended. The others share its partitions."""
        self._dismiss(member_id)
        self.prepare_rebalance(at)

    def _dismiss(self, member_id: str) -> None:
        """Remove a member, and answer what it still waits for (Kafka's
        ``removeMemberAndUpdateGroup``)."""
        member = self.members.remove(member_id)
        gone = ErrorCode.unknown_member_id
        self.answer_join(member, JoinAnswer(error=gone))
        self.answer_sync(member, SyncAnswer(error=gone))

    def forget_pending(self, member_id: str, at: Moment) -> None:
        """Forget an id with which no member will join. The others may have waited for it."""
        del self.members.pending[member_id]
        if self.state is GroupState.PREPARING_REBALANCE:
            self.advance_join(at)

    def touch(self, member: Member, at: Moment) -> None:
        """Extend a member's session, because it sent a request."""
        member.deadline = Millis(at.now + member.session_timeout_ms)

    def tick(self, at: Moment) -> None:
        """End sessions and phases whose time is over."""
        for member_id, deadline in tuple(self.members.pending.items()):
            if at.now >= deadline:
                self.forget_pending(member_id, at)
        for member in self.members:
            expired = member.must_heartbeat and at.now >= member.deadline
            if expired and member.member_id in self.members:
                self.remove(member.member_id, at)
        if self._phase_ends is not None and at.now >= self._phase_ends:
            self._end_phase(at)

    def _end_phase(self, at: Moment) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            self.advance_join(at)
            return
        self._phase_ends = None
        silent = [member for member in self.members if not member.synced]
        for member in silent:
            self._dismiss(member.member_id)
        if silent:
            self.prepare_rebalance(at)

    # --- answers ----------------------------------------------------------------------------

    def answer_join(self, member: Member, answer: JoinAnswer) -> None:
        """Answer a member's JoinGroup, if one waits."""
        if member.join is not None:
            self.respond(member.join, answer)
            member.join = None

    def answer_sync(self, member: Member, answer: SyncAnswer) -> None:
        """Answer a member's SyncGroup, if one waits."""
        if member.sync is not None:
            self.respond(member.sync, answer)
            member.sync = None

    def end_wait(self, member: Member, answer: SyncAnswer, at: Moment) -> None:
        """Answer a member that waits for an assignment, and restart its session (Kafka's
        ``propagateAssignment``). If it had waited for the leader longer than a session, the next
        tick would remove it before it could join again."""
        if member.sync is not None:
            self.touch(member, at)
        self.answer_sync(member, answer)

    def joined(self, member: Member) -> JoinAnswer:
        """Return the answer with a member's place in the present generation."""
        leads = self.members.leader == member.member_id
        return JoinAnswer(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.members.leader or NO_MEMBER_ID,
            members=self.members.joined(self.protocol) if leads else (),
        )

    def assigned(self, member: Member) -> SyncAnswer:
        """Return the answer with a member's assignment in the present generation."""
        return SyncAnswer(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    # --- questions --------------------------------------------------------------------------

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the subscribed topics, or None when the members do not use the consumer
        protocol."""
        if self.protocol_type != CONSUMER_PROTOCOL or self.protocol is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members:
                reader = Reader(member.metadata(self.protocol), SUBSCRIPTION_AT)
                subscription = ConsumerProtocolSubscription.read(reader, 0)
                topics.update(subscription.topics)
        except UNREADABLE:
            return None
        return frozenset(topics)

    def record(
        self, at: Moment, assignments: dict[str, bytes] | None = None
    ) -> tuple[GroupMetadataKey, GroupMetadataValue]:
        """Return the record of the present generation, with ``assignments`` in place of the
        members' own."""
        return GroupMetadataKey(group=self.group_id), GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            current_state_timestamp=at.wall_ms if self.since_ms is None else self.since_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=member.assignment
                    if assignments is None
                    else assignments.get(member.member_id, b""),
                )
                for member in self.members
            ),
        )
