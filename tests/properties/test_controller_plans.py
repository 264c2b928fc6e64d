"""A controller carries out the last order, whatever else happened meanwhile.

Reassignments replace each other and are taken back, topics are deleted while they are moved,
brokers die and come back, writes are delayed and controllers change. When all brokers are back and
followers have caught up, every partition is where its last accepted order has it, and a topic that
was to be deleted is gone.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from kio.schema.errors import ErrorCode

from ackproof.broker.controller import events
from ackproof.broker.types import TopicPartition
from tests.support.worlds.controller_world import World

BROKERS = (1, 2, 3, 4)
TP = TopicPartition("t", 0)
ROUNDS = 12
brokers = st.sampled_from(BROKERS)
targets = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
held = st.booleans()


class Followed(World):  # type: ignore[misc]
    """Keeps what each order was answered, and which brokers have a replica on their disks."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[int, Any] = {}
        self.hosts: set[int] = set()

    def deliver(self, broker: int, request: Any) -> Any:
        heard = super().deliver(broker, request)
        if (broker, TP) in self.told:
            self.hosts.add(broker)
        if any(TP in event.errors for event in heard):
            self.hosts.discard(broker)
        return heard

    def carry_out(self, effect: Any) -> Any:
        if isinstance(effect, events.Answer):
            self.outcomes[effect.token] = effect.outcomes
        return super().carry_out(effect)


class Orders(RuleBasedStateMachine):
    """One partition of one topic, and what is ordered of it."""

    @initialize(replicas=targets)
    def start(self, replicas: tuple[int, ...]) -> None:
        self.world = Followed()
        for broker in BROKERS:
            self.world.register(broker)
        self.world.elect()
        self.world.topic("t", replicas)
        self.origin = self.due = replicas
        self.deleted = False
        self.token = 0

    # --- orders -------------------------------------------------------------------------------

    @precondition(lambda self: "t" in self.world.topics)
    @rule(to=st.none() | targets, hold=held)
    def reassign(self, to: tuple[int, ...] | None, hold: bool) -> None:
        """``to`` None takes the reassignment back."""
        now = self.world.controller.context.assignment(TP)
        if now is not None and not now.adding and not now.removing:
            self.origin = now.replicas
        self.token += 1
        order = events.ReassignmentsAltered(targets={TP: to}, token=self.token)
        self.world.feed(order, hold=hold)
        if self.world.outcomes[self.token][TP].error is ErrorCode.none:
            self.due = self.origin if to is None else to

    @precondition(lambda self: "t" in self.world.topics)
    @rule(hold=held)
    def delete(self, hold: bool) -> None:
        self.deleted = True
        self.world.deleting.add("t")
        self.world.feed(events.DeletionAsked(topics=frozenset({"t"})), hold=hold)

    # --- what happens meanwhile ---------------------------------------------------------------

    @rule(broker=brokers, seen=st.booleans())
    def broker_dies(self, broker: int, seen: bool) -> None:
        if broker in self.world.live:
            self.world.unregister(broker)
            if seen:
                self.world.brokers_seen()

    @rule(broker=brokers)
    def broker_comes_back(self, broker: int) -> None:
        self.world.register(broker)
        self.world.brokers_seen()

    @rule(seen=st.booleans())
    def followers_catch_up(self, seen: bool) -> None:
        self.join(seen=seen)

    @rule()
    def writes_are_carried_out(self) -> None:
        self.world.release()

    @rule()
    def another_controller(self) -> None:
        """Elect another controller after the orders have been written. Its client repeats the
        others."""
        self.world.release()
        self.world.elect()

    def join(self, *, seen: bool) -> None:
        state = self.world.states.get(TP)
        if (
            state is None
            or state.leader not in self.world.whole(TP)
            or "t" not in self.world.topics
        ):
            return
        assigned = self.world.topics["t"].partitions[0].replicas
        isr = [b for b in assigned if b in self.world.live] + [
            b for b in state.isr if b not in assigned
        ]
        self.world.leader_writes(TP, *dict.fromkeys([state.leader, *isr]))
        if seen:
            self.world.isr_seen(TP)

    # --- the end --------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Nothing goes wrong any more."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(ROUNDS):
            world.brokers(*BROKERS)
            world.release()
            self.join(seen=True)
            world.isr_seen(TP)
            if not world.held and self.is_settled():
                break
        if self.deleted:
            assert "t" not in world.topics, "the topic that was to be deleted is still there"
            return
        now = world.topics["t"].partitions[0]
        assert (set(now.replicas), now.adding, now.removing) == (set(self.due), (), ())
        assert world.hosts == set(self.due), f"brokers {world.hosts} have a replica"

    def is_settled(self) -> bool:
        if self.deleted:
            return "t" not in self.world.topics
        now = self.world.topics["t"].partitions[0]
        return set(now.replicas) == set(self.due) and not now.adding and not now.removing


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=30, stateful_step_count=12, report_multiple_bugs=False)
