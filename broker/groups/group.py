"""One group: its state, its members, its offsets, and how a rebalance goes.

Follows ``GroupCoordinator`` of Kafka 3.x (KIP-62, KIP-134, KIP-345, KIP-394). A rebalance::

    prepare_rebalance     everyone is to join; the empty group waits a moment for more (KIP-134)
    advance_join          all have joined, or time is over: the next generation
    (Sync of the leader)  assignments are stored, then given out: Stable

Here is what changes a group; :mod:`broker.groups.groups` says which request does what in which
state. Everything that is decided goes to an outbox. Not handled: the consumer protocol of KIP-848,
offsets committed in transactions.
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
"""Where the fields of a member's metadata begin that every version has, behind an int16 that says
which version it is."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a newcomer may wait for its first generation: it has no session yet, and its client may
have given up and come again. As in Kafka."""


class Group:
    """One group, ``EMPTY`` and without a generation at first.

    Args:
        tokens: where the numbers of :class:`Store` come from.
    """

    def __init__(self, group_id: str, config: GroupConfig, tokens: Iterator[int]) -> None:
        self.group_id = group_id
        self.config = config
        self.state = GroupState.EMPTY
        self.since_ms: int | None = None
        """When it came into this state, in ms since 1970."""
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
        """What has been decided since the last time."""
        effects, self._outbox = tuple(self._outbox), []
        return effects

    def respond(self, request: int, answer: Answer) -> None:
        """Answers a request."""
        self._outbox.append(Respond(request=request, answer=answer))

    def store(self, records: tuple[tuple[Key, Value | None], ...], pending: Pending) -> None:
        """Has records stored; ``pending`` is what to go on with when they are, or cannot be."""
        token = next(self._tokens)
        self._storing[token] = pending
        self._outbox.append(Store(token=token, records=records))

    def stored(self, token: int) -> Pending:
        """What to go on with where :meth:`store` left off."""
        return self._storing.pop(token)

    @property
    def is_storing(self) -> bool:
        """Something is on its way."""
        return bool(self._storing)

    def check(self) -> None:
        """Assert what holds after every step; raises BrokenInvariant.

        A member leads if there is any; no two have the same instance id. Without members the group
        is empty, dead or about to be empty. Within a generation all know the chosen protocol.
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
        """Changes the state."""
        self._change(state)
        self.since_ms = at.wall_ms

    def die(self) -> None:
        """Its end is on its way: nobody comes to it any more."""
        self._change(GroupState.DEAD)

    def live_on(self) -> None:
        """Its end could not be stored: it is empty for as long as it was."""
        self._change(GroupState.EMPTY)

    def _change(self, state: GroupState) -> None:
        assert self.state in BEFORE[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state

    def prepare_rebalance(self, at: Moment) -> None:
        """Calls everyone to join, unless that is under way, and goes on if all have."""
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
        """Begins the next generation if nobody is missing or time is over."""
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
        else:  # static members alone, all of them silent: their sessions decide
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
        self.protocol = self.members.liked_best()[0]
        self._phase_ends = Millis(at.now + self.members.rebalance_timeout_ms)
        self.enter(GroupState.COMPLETING_REBALANCE, at)
        for member in self.members:
            member.assignment = b""
            member.synced = member.is_new = False
            self.touch(member, at)
            self.answer_join(member, self.joined(member))

    def assign(self, assignments: Mapping[str, bytes], at: Moment) -> None:
        """The generation's assignments are stored: gives them out."""
        self.enter(GroupState.STABLE, at)
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
            self.end_wait(member, self.assigned(member), at)

    # --- members ----------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str, at: Moment) -> None:
        """A newcomer, who calls for a rebalance."""
        if len(self.members) == 0:
            self.protocol_type = protocol_type
        member.is_new = True
        member.deadline = Millis(at.now + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.members.add(member)
        if self.state is GroupState.PREPARING_REBALANCE and self.generation == 0:
            self._newcomers = True
        self.prepare_rebalance(at)

    def remove(self, member_id: str, at: Moment) -> None:
        """A member left, or its session did; the others share what it had."""
        self._dismiss(member_id)
        self.prepare_rebalance(at)

    def _dismiss(self, member_id: str) -> None:
        """Whatever it still waits for is answered, as by Kafka's ``removeMemberAndUpdateGroup``."""
        member = self.members.remove(member_id)
        gone = ErrorCode.unknown_member_id
        self.answer_join(member, JoinAnswer(error=gone))
        self.answer_sync(member, SyncAnswer(error=gone))

    def forget_pending(self, member_id: str, at: Moment) -> None:
        """Nobody will join with that id; it may have been what the others waited for."""
        del self.members.pending[member_id]
        if self.state is GroupState.PREPARING_REBALANCE:
            self.advance_join(at)

    def touch(self, member: Member, at: Moment) -> None:
        """It was heard of."""
        member.deadline = Millis(at.now + member.session_timeout_ms)

    def tick(self, at: Moment) -> None:
        """Ends sessions and phases whose time is over."""
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
        """Answers a member's JoinGroup, if one waits."""
        if member.join is not None:
            self.respond(member.join, answer)
            member.join = None

    def answer_sync(self, member: Member, answer: SyncAnswer) -> None:
        """Answers a member's SyncGroup, if one waits."""
        if member.sync is not None:
            self.respond(member.sync, answer)
            member.sync = None

    def end_wait(self, member: Member, answer: SyncAnswer, at: Moment) -> None:
        """Answers who waits for an assignment, and begins its session anew (Kafka's
        ``propagateAssignment``). One that waited for the leader for longer than a session would be
        out at the next tick, before it could join again."""
        if member.sync is not None:
            self.touch(member, at)
        self.answer_sync(member, answer)

    def joined(self, member: Member) -> JoinAnswer:
        """A member's place in the present generation."""
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
        """A member's part in the present generation."""
        return SyncAnswer(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    # --- questions --------------------------------------------------------------------------

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics its members want; None when they do not speak the consumer protocol."""
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
        """The present generation as it is stored; ``assignments`` in place of the members' own."""
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
