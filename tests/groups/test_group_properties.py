"""Whatever members, clocks and the log do, a group keeps its promises."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import JoinAnswer, Protocol, SyncAnswer
from ackproof.broker.groups.state import GroupState
from tests.support.builders.examples import examples
from tests.support.worlds.group_world import TP, World

INSTANCES = st.sampled_from([None, None, "a", "b"])
PROTOCOLS = st.sampled_from(
    [(Protocol("range", b"1"),), (Protocol("range", b"2"), Protocol("other", b"2"))]
)
FAILURES = st.sampled_from([ErrorCode.not_enough_replicas, ErrorCode.request_timed_out])
FOR_EVER_MS = 400_000
"""Above every timeout there is."""


class Members(RuleBasedStateMachine):
    """Up to as many members as join, each knowing what it was told last."""

    def __init__(self):
        super().__init__()
        self.world = World(GroupConfig(initial_rebalance_delay_ms=100), auto=False)
        self.known = {}  # member id -> (instance id, generation)
        self.joins = {}  # request -> instance id
        self.syncs = {}  # request -> (member id, generation)
        self.commits = {}  # request -> offset
        self.instance_of = {}
        self.acked = -1
        self.next_offset = 0
        self.in_doubt = False
        self.ids = 0

    def teardown(self):
        """Time heals: each request is answered, and a group without members is empty."""
        self.world.auto = True
        while self.world.stores:
            self.world.store()
        for _ in range(4):
            self.world.now += FOR_EVER_MS
            self.world.tick()
        assert not self.world.asked
        if "g" in self.world.groups.by_id:
            assert self.world.group.state is GroupState.EMPTY

    def pick(self, data):
        return data.draw(st.sampled_from(sorted(self.known)))

    def listen(self):
        """Members take in what they were told."""
        for number, instance in list(self.joins.items()):
            answer = self.world.answer(number)
            if answer is not None:
                del self.joins[number]
                assert isinstance(answer, JoinAnswer)
                if answer.error is ErrorCode.member_id_required:
                    self.joins[self.world.join(answer.member_id)] = instance
                elif answer.error is ErrorCode.none:
                    self.known[answer.member_id] = instance, answer.generation
        for number, (member, generation) in list(self.syncs.items()):
            answer = self.world.answer(number)
            if answer is not None:
                del self.syncs[number]
                self.check_assignment(answer, member, generation)
        for number, offset in list(self.commits.items()):
            answer = self.world.answer(number)
            if answer is not None:
                del self.commits[number]
                if answer.partitions.get(TP) is ErrorCode.none:
                    self.acked = max(self.acked, offset)

    def check_assignment(self, answer, member, generation):
        """One generation's assignment goes to its members alone, to each its own."""
        assert isinstance(answer, SyncAnswer)
        if answer.error is ErrorCode.none and answer.assignment:
            assigned_in, _, assigned_to = answer.assignment.decode().partition(":")
            assert int(assigned_in) == generation
            instance = self.instance_of[member]
            twin = instance is not None and self.instance_of.get(assigned_to) == instance
            assert assigned_to == member or twin

    # --- what may happen ----------------------------------------------------------------------

    @rule(instance=INSTANCES, protocols=PROTOCOLS, skips=st.booleans())
    def newcomer(self, instance, protocols, skips):
        self.ids += 1
        number = self.world.join(
            instance=instance,
            protocols=protocols,
            new_member_id=f"m{self.ids}",
            supports_skipping_assignment=skips,
        )
        self.joins[number] = instance
        self.instance_of[f"m{self.ids}"] = instance
        self.listen()

    @rule(failing=st.sampled_from([False, False, False, True]))
    def a_round_goes_well(self, failing):
        """All who are known join, wait, are stored, sync; and then one of them may be late."""
        for member, (instance, _) in sorted(self.known.items()):
            self.joins[self.world.join(member, instance=instance)] = instance
        self.time_goes_by(100)
        for member in sorted(self.known)[failing:]:
            self.sync(member)
        while self.world.stores:
            self.world.store()
        self.listen()

    @precondition(lambda self: self.known)
    @rule(data=st.data(), protocols=PROTOCOLS)
    def joins_again(self, data, protocols):
        member = self.pick(data)
        instance, _ = self.known[member]
        self.joins[self.world.join(member, instance=instance, protocols=protocols)] = instance
        self.listen()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def syncs(self, data):
        self.sync(self.pick(data))
        self.listen()

    def sync(self, member):
        instance, generation = self.known[member]
        everyone = {m: f"{generation}:{m}".encode() for m in self.instance_of}
        number = self.world.sync(member, generation, everyone, instance_id=instance)
        self.syncs[number] = member, generation

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def heartbeats(self, data):
        member = self.pick(data)
        instance, generation = self.known[member]
        self.world.heartbeat(member, generation, instance_id=instance)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def leaves(self, data):
        member = self.pick(data)
        instance, _ = self.known.pop(member)
        self.world.leave((member, instance))
        self.listen()

    @rule(data=st.data())
    def commits_further(self, data):
        member, generation = "", -1
        if self.known and data.draw(st.booleans()):
            member = self.pick(data)
            _, generation = self.known[member]
        self.next_offset += 1
        number = self.world.commit(self.next_offset, member, generation)
        self.commits[number] = self.next_offset
        self.listen()

    @rule()
    def is_stored(self):
        if self.world.stores:
            self.world.store()
        self.listen()

    @rule(error=FAILURES)
    def is_not_stored(self, error):
        if self.world.stores:
            self.in_doubt = True
            self.world.store(error)
        self.listen()

    @rule(ms=st.sampled_from([100, 1_000, 9_900, 60_000]))
    def time_goes_by(self, ms):
        self.world.tick(ms)
        self.listen()

    @precondition(lambda self: not self.world.asked)
    @rule()
    def coordinator_moves(self):
        self.world.reload()
        self.in_doubt = False

    # --- what holds at any time -----------------------------------------------------------------

    @invariant()
    def instance_ids_are_unique(self):
        if "g" in self.world.groups.by_id:
            instances = [m.instance_id for m in self.world.group.members if m.instance_id]
            assert len(instances) == len(set(instances))

    @invariant()
    def somebody_leads_who_is_a_member(self):
        if "g" in self.world.groups.by_id:
            members = self.world.group.members
            assert members.leader in members if len(members) else members.leader is None

    @invariant()
    def members_and_states_agree(self):
        if "g" in self.world.groups.by_id:
            group = self.world.group
            if group.state is GroupState.EMPTY:
                assert len(group.members) == 0
            elif group.state is not GroupState.PREPARING_REBALANCE:
                assert len(group.members) > 0
                assert group.protocol is not None

    @invariant()
    def what_was_acked_is_committed(self):
        if self.acked >= 0:
            assert self.world.committed() >= self.acked

    @invariant()
    def memory_is_what_the_log_says(self):
        if not self.in_doubt and not self.world.stores:
            from_log = World(log=list(self.world.log))
            assert set(from_log.groups.snapshot()) == set(self.world.groups.snapshot())


Members.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=30, print_blob=True
)
TestGroup = Members.TestCase
