"""A broker that joins and leaves: in order, or not at all."""

from contextlib import suppress

import pytest

from ackproof.infra.api.capabilities import OrderRefused
from ackproof.infra.api.interface import InfraError, ProcessState, Server
from ackproof.nemesis.execution import HealFailed
from ackproof.nemesis.interface import ServerObservers, Unplannable
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import TargetUnavailable, resolve
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory, memory_cluster
from ackproof.testing.memory.servers import MemoryServer

ORDERS_0 = "partition(orders, 0)"


@pytest.fixture
def memory() -> Memory:
    made = memory_cluster(3)
    made.system.replicas = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    made.system.zookeeper_session_timeout_ms = made.system.replica_lag_time_max_ms = 20
    return made


class Noting:
    """An attendant that notes what it is told, and what was the case then."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.told: list[tuple[str, str, bool, bool]] = []
        self.refusal: InfraError | None = None
        memory.cluster.attendant.present.append(self)  # type: ignore[attr-defined]

    def joins(self, server: Server) -> None:
        self._note("joins", server)

    def leaves(self, server: Server) -> None:
        self._note("leaves", server)

    def left(self, server: Server) -> None:
        self._note("left", server)
        if self.refusal is not None:
            raise self.refusal

    def _note(self, what: str, server: Server) -> None:
        runs = server.process.state() is ProcessState.RUNNING
        self.told.append((what, server.name, runs, bool(held(self.memory, server.id))))


def held(memory: Memory, broker: int) -> list[int]:
    views = memory.system.view().partitions
    return [number for (_, number), one in views.items() if broker in one.replicas]


def joined(memory: Memory) -> MemoryServer:
    (one,) = memory.system.added.there
    return one


def test_attendants_hear_of_a_join_and_a_leave_without_replicas(
    nemesis: Nemesis, memory: Memory
) -> None:
    noting = Noting(memory)
    entry = nemesis.strike("add-broker", "topic(orders)")
    assert held(memory, 4) == [0, 1, 2]
    nemesis.executor.heal(entry)
    assert noting.told == [
        ("joins", "broker-4", False, False),
        ("leaves", "broker-4", True, False),
        ("left", "broker-4", False, False),
    ]
    assert not memory.backend.remains("broker-4")


def test_effects_of_an_added_broker_are_observed(nemesis: Nemesis) -> None:
    entry = nemesis.strike("add-broker", ORDERS_0, leads=True)
    proof = nemesis.bitten(entry)
    assert proof.proven
    assert proof.observations["registered"] == {"broker-4": True}
    assert proof.observations["led by the preferred"] == {"orders-0": "broker-4"}
    nemesis.executor.heal(entry)
    healed = nemesis.healed(entry)
    assert healed.proven
    assert healed.observations["gone"] == {"broker-4": {"registered": False, "replicas": []}}
    assert healed.observations["left behind"] == {"broker-4": []}


def test_several_lead_in_turn_and_each_has_all(nemesis: Nemesis, memory: Memory) -> None:
    nemesis.strike("add-broker", "topic(orders)", brokers=2, leads=True)
    views = memory.system.view().partitions
    assert [views["orders", n].leader for n in range(3)] == [4, 5, 4]
    assert all({4, 5} == set(one.replicas) for one in views.values())


def test_more_than_there_are_replicas_is_refused(nemesis: Nemesis) -> None:
    with pytest.raises(Unplannable, match="too few for each of 3 new brokers"):
        nemesis.aim("add-broker", ORDERS_0, brokers=3)


def test_an_id_is_never_given_twice(nemesis: Nemesis, memory: Memory) -> None:
    first = nemesis.strike("add-broker", ORDERS_0)
    nemesis.executor.heal(first)
    nemesis.strike("add-broker", ORDERS_0)
    assert joined(memory).name == "broker-5"


def test_added_broker_is_targeted_only_where_it_has_replicas(
    nemesis: Nemesis, memory: Memory
) -> None:
    nemesis.strike("add-broker", ORDERS_0, leads=True)
    assert resolve(parse("all"), memory.cluster, 1).nodes == ("broker-1", "broker-2", "broker-3")
    with pytest.raises(TargetUnavailable):
        resolve(parse("leader(orders, 0)"), memory.cluster, 1)
    of_another = nemesis.aim("reassign", ORDERS_0, replicas="one")
    (one,) = of_another.target.placed
    assert one.replicas[0] == one.leader == "broker-4"


class TestThatDoesNotBite:
    def test_without_a_node(self, nemesis: Nemesis, memory: Memory) -> None:
        memory.system.added.full = True
        entry = nemesis.aim("add-broker", ORDERS_0)
        with pytest.raises(InfraError, match="no node is left"):
            nemesis.executor.inject(entry)
        assert not nemesis.bitten(entry).proven
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_when_it_ends_at_once(self, nemesis: Nemesis, memory: Memory) -> None:
        memory.system.added.stillborn = True
        entry = nemesis.aim("add-broker", ORDERS_0)
        with pytest.raises(RuntimeError, match="broker-4 ended with status 1"):
            nemesis.executor.inject(entry)
        assert not nemesis.bitten(entry).proven
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
        assert not memory.system.added.there

    def test_while_a_replica_on_it_is_not_in_sync(self, nemesis: Nemesis, memory: Memory) -> None:
        entry = nemesis.strike("add-broker", ORDERS_0)
        memory.system.admin.isrs["orders", 0] = [1]
        assert not nemesis.bitten(entry).proven

    def test_by_another_fault_of_its_kind_that_was_aimed_with_it(self, nemesis: Nemesis) -> None:
        first, second = (nemesis.aim("add-broker", f"partition(orders, {n})") for n in (0, 1))
        for entry in (first, second):
            nemesis.executor.inject(entry)
        assert not nemesis.bitten(second).proven
        nemesis.executor.heal(first)
        assert held(nemesis.memory, 4) == [1]
        nemesis.executor.heal(second)
        assert not nemesis.memory.system.added.there
        assert nemesis.healed(second).proven


class TestThatIsNotHealed:
    def test_while_it_has_replicas_it_is_left_alone(self, nemesis: Nemesis, memory: Memory) -> None:
        """Else what only it has would be gone with it."""
        entry = nemesis.strike("add-broker", ORDERS_0)
        memory.system.admin.refusal = OrderRefused("not now")
        with pytest.raises(HealFailed, match="broker-4 was not observed without replicas"):
            nemesis.executor.heal(entry)
        assert joined(memory).process.state() is ProcessState.RUNNING
        assert not nemesis.healed(entry).proven
        memory.system.admin.refusal = None
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_added_broker_is_kept_while_its_leftovers_cannot_be_fetched(
        self, nemesis: Nemesis, memory: Memory
    ) -> None:
        noting = Noting(memory)
        noting.refusal = InfraError("the host is silent")
        entry = nemesis.strike("add-broker", ORDERS_0)
        with pytest.raises(HealFailed, match="the host is silent"):
            nemesis.executor.heal(entry)
        assert not nemesis.healed(entry).proven
        assert memory.backend.remains("broker-4")
        noting.refusal = None
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_while_something_is_left_of_its_node(self, nemesis: Nemesis, memory: Memory) -> None:
        memory.backend.clings = True
        entry = nemesis.strike("add-broker", ORDERS_0)
        nemesis.executor.heal(entry)
        assert not nemesis.healed(entry).proven


def test_replicas_added_meanwhile_move_to_the_remaining_brokers(
    nemesis: Nemesis, memory: Memory
) -> None:
    entry = nemesis.strike("add-broker", ORDERS_0)
    memory.system.admin.assigned["orders", 1] = [2, 4]
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    replicas = memory.system.view().partitions["orders", 1].replicas
    assert replicas == (2, 1)


def test_added_broker_that_ended_by_itself_is_not_attributed_to_the_fault(
    nemesis: Nemesis, memory: Memory
) -> None:
    entry = nemesis.strike("add-broker", ORDERS_0)
    joined(memory).process.signal(9)
    assert nemesis.ledger.holding("broker-4") is None
    assert nemesis.ledger.upon("broker-4") == entry.fault_id
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven


@pytest.mark.parametrize(
    ("fault", "own"), [("reassign", {"replicas": "one"}), ("elect-preferred", {})]
)
def test_move_back_omits_brokers_that_have_left(
    nemesis: Nemesis, memory: Memory, fault: str, own: dict[str, object]
) -> None:
    """Test a fault that found replicas on an added broker: the two heal in any order."""
    added = nemesis.strike("add-broker", ORDERS_0)
    other = nemesis.strike(fault, ORDERS_0, seed=3, **own)
    assert "broker-4" in other.target.placed[0].replicas
    for _ in range(2):
        for entry in (added, other):
            try:
                nemesis.executor.heal(entry)
            except HealFailed:
                continue
    assert nemesis.healed(other).proven
    assert memory.system.view().partitions["orders", 0].replicas == (1, 2)
    assert not memory.system.added.there


@pytest.mark.parametrize("fault", ["reassign", "elect-preferred"])
def test_an_order_that_comes_too_late_for_it_is_taken_back(nemesis: Nemesis, fault: str) -> None:
    """Aimed while the broker was there, injected when it has left."""
    added = nemesis.strike("add-broker", ORDERS_0)
    late = nemesis.aim(fault, ORDERS_0, seed=3)
    nemesis.executor.heal(added)
    with suppress(LookupError, OrderRefused):
        nemesis.executor.inject(late)
    nemesis.executor.heal(late)
    assert nemesis.healed(late).proven


def test_attendants_forward_each_event_to_all(memory: Memory) -> None:
    one, two = Noting(memory), Noting(memory)
    attendants = ServerObservers([one, two])
    attendants.joins(memory.system.brokers[0])
    assert one.told == two.told == [("joins", "broker-1", True, True)]
