"""An administrator's orders: proven when they were carried out, and not when they were not."""

import pytest

from ackproof.infra.api.capabilities import AdminTimeout, OrderRefused
from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis.admin.effects import DirectoryMove
from ackproof.nemesis.admin.orders import ADMIN
from ackproof.nemesis.admin.topics import CHURN
from ackproof.nemesis.effects import EffectNotBegun
from ackproof.nemesis.examples import ORDERS, Example
from ackproof.nemesis.execution import HealFailed
from ackproof.nemesis.interface import Unplannable
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import TargetUnavailable, resolve
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import Memory, memory_cluster

TAKEN_BACK = [
    ("reassign", "partition(orders, 0)", {}),
    ("reassign", "topic(orders)", {"replicas": "one"}),
    ("elect-preferred", "topic(orders)", {}),
    ("alter-min-isr", "topic(orders)", {"min_insync_replicas": 3}),
    ("remove-broker", "broker-3", {}),
    ("add-broker", "partition(orders, 0)", {}),
    ("add-broker", "topic(orders)", {"brokers": 2, "leads": True}),
    ("create-topic", "all", {"topics": 2}),
    ("grow-topic", "all - broker-1", {"partitions": 2, "more": 1}),
]
FOR_GOOD = [
    ("delete-topic", "all", {}),
    ("delete-records", "all", {"topics": 1}),
]


@pytest.fixture
def memory() -> Memory:
    """Five brokers, each partition on three of them; waits are short."""
    made = memory_cluster(5)
    made.system.replicas = {0: [1, 2, 3], 1: [2, 3, 4], 2: [3, 4, 5]}
    made.system.zookeeper_session_timeout_ms = made.system.replica_lag_time_max_ms = 20
    return made


def replicas(nemesis: Nemesis) -> dict[int, tuple[int, ...]]:
    views = nemesis.memory.system.view().partitions
    return {number: one.replicas for (topic, number), one in views.items() if topic == "orders"}


@pytest.mark.parametrize(("name", "expression", "own"), TAKEN_BACK)
@pytest.mark.parametrize("silent", [False, True])
def test_admin_fault_takes_effect_and_heals(
    nemesis: Nemesis, name: str, expression: str, own: dict[str, object], silent: bool
) -> None:
    admin = nemesis.memory.system.admin
    admin.configs["orders"] = {"min.insync.replicas": "2", "retention.ms": "1"}
    before = nemesis.memory.system.view().partitions
    admin.silent = silent
    nemesis.through(name, expression, **own)
    after = nemesis.memory.system.view().partitions
    assert {key: one.replicas for key, one in after.items()} == {
        key: one.replicas for key, one in before.items()
    }
    assert admin.configs["orders"] == {"min.insync.replicas": "2", "retention.ms": "1"}


@pytest.mark.parametrize("example", ORDERS, ids=lambda example: example.what)
def test_the_examples_bite(nemesis: Nemesis, example: Example) -> None:
    entry = nemesis.strike(example.fault, example.target, **example.parameters)
    assert nemesis.bitten(entry).proven
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven


@pytest.mark.parametrize("silent", [False, True])
def test_slow_move_between_log_directories_ends_when_its_limit_is_lifted(
    nemesis: Nemesis, silent: bool
) -> None:
    admin = nemesis.memory.system.admin
    if silent:
        entry = nemesis.strike("move-log-dir", "partition(orders, 0)", bytes_per_s=1)
        admin.silent = True
        with pytest.raises(HealFailed):
            nemesis.executor.heal(entry)
        return
    entry = nemesis.through("move-log-dir", "topic(orders)", replicas="all", bytes_per_s=1)
    moves = [e for e in entry.plan.effects if isinstance(e, DirectoryMove)]
    assert len(moves) == 9
    assert set(admin.lies.values()) == {"/disks/2"}
    assert not admin.limits


def test_move_between_log_directories_is_proven_by_the_new_directory(nemesis: Nemesis) -> None:
    entry = nemesis.strike("move-log-dir", "partition(orders, 0)")
    proof = nemesis.bitten(entry)
    assert proof.proven
    assert proof.observations["lies in"] == {
        "orders-0 on broker-1": {"before": "/disks/1", "lies in": "/disks/2", "moving to": None}
    }
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    assert nemesis.memory.system.admin.lies == {(1, "orders", 0): "/disks/2"}


@pytest.mark.parametrize("own", [{}, {"bytes_per_s": 1}])
def test_replica_that_stays_in_its_log_directory_is_not_proven_moved(
    nemesis: Nemesis, own: dict[str, object]
) -> None:
    nemesis.memory.system.admin.deaf = True
    assert not nemesis.bitten(nemesis.strike("move-log-dir", "topic(orders)", **own)).proven


def test_limited_move_does_not_explain_the_end_of_its_broker(nemesis: Nemesis) -> None:
    nemesis.strike("move-log-dir", "partition(orders, 0)", bytes_per_s=1)
    killed = nemesis.strike("kill", "broker-1")
    nemesis.executor.heal(killed)
    nemesis.executor.pass_on(killed)
    nemesis.ledger.close(killed.fault_id)
    assert nemesis.ledger.holding("broker-1") is None
    assert nemesis.ledger.upon("broker-1") is None


def test_future_replica_keeps_a_move_between_log_directories_unhealed(nemesis: Nemesis) -> None:
    entry = nemesis.strike("move-log-dir", "partition(orders, 0)")
    nemesis.memory.system.admin.moving[1, "orders", 0] = "/disks/1"
    nemesis.executor.heal(entry)
    assert not nemesis.healed(entry).proven


def test_move_between_log_directories_needs_a_broker_that_answers(nemesis: Nemesis) -> None:
    nemesis.memory.system.brokers[0].process.signal(9)
    with pytest.raises(Unplannable, match="no replica of orders-0 can be moved"):
        nemesis.aim("move-log-dir", "partition(orders, 0)", seed=1, replicas="one")


@pytest.mark.parametrize(("name", "expression", "own"), FOR_GOOD)
def test_deleted_topics_stay_deleted_and_leave_nothing(
    nemesis: Nemesis, name: str, expression: str, own: dict[str, object]
) -> None:
    entry = nemesis.strike(name, expression, **own)
    proof = nemesis.bitten(entry)
    assert proof.proven, proof.observations
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    assert not nemesis.memory.system.admin.own


def test_changes_to_workload_topics_persist(nemesis: Nemesis) -> None:
    admin = nemesis.memory.system.admin
    added = nemesis.strike("add-partitions", "topic(orders)", more=2)
    assert nemesis.bitten(added).observations["partitions led"] == {"orders": 5}
    deleted = nemesis.strike("advance-log-start", "topic(orders) - partition(orders, 0)")
    proof = nemesis.bitten(deleted)
    assert proof.proven
    assert proof.observations["log starts at"] == {f"orders-{n}": 100 for n in range(1, 5)}
    for entry in (deleted, added):
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven
    assert admin.own == {"orders": 5}
    assert admin.starts == {("orders", n): 100 for n in range(1, 5)}


@pytest.mark.parametrize(
    ("name", "target"),
    [("add-partitions", "topic(orders)"), ("advance-log-start", "topic(orders)")],
)
def test_order_without_effect_is_not_proven(nemesis: Nemesis, name: str, target: str) -> None:
    nemesis.memory.system.admin.deaf = True
    assert not nemesis.bitten(nemesis.strike(name, target)).proven


@pytest.mark.parametrize(
    ("name", "expression", "own"),
    [case for case in TAKEN_BACK if case[0] not in ("remove-broker", "elect-preferred")],
)
def test_orders_that_change_nothing_are_not_proven(
    nemesis: Nemesis, name: str, expression: str, own: dict[str, object]
) -> None:
    nemesis.memory.system.admin.deaf = True
    assert not nemesis.bitten(nemesis.strike(name, expression, **own)).proven


def test_a_preferred_replica_that_is_not_elected_is_not_proven(nemesis: Nemesis) -> None:
    nemesis.memory.system.admin.deaf = True
    entry = nemesis.strike("elect-preferred", "partition(orders, 0)")
    proof = nemesis.bitten(entry)
    assert not proof.proven
    assert proof.observations["led by the preferred"] == {"orders-0": "broker-1"}


@pytest.mark.parametrize("name", ["delete-topic", "delete-records"])
def test_a_topic_that_never_was_is_not_deleted(nemesis: Nemesis, name: str) -> None:
    nemesis.memory.system.admin.deaf = True
    with pytest.raises(TimeoutError, match="does not have a leader"):
        nemesis.strike(name, "all", topics=1)


def test_records_that_are_still_there_were_not_deleted(nemesis: Nemesis) -> None:
    entry = nemesis.strike("delete-records", "all", topics=1, partitions=1)
    (key,) = nemesis.memory.system.admin.starts
    nemesis.memory.system.admin.starts[key] = 0
    assert not nemesis.bitten(entry).proven


def test_a_broker_that_keeps_its_replicas_is_not_removed(nemesis: Nemesis) -> None:
    nemesis.memory.system.admin.deaf = True
    with pytest.raises(EffectNotBegun, match="broker-3 still has replicas"):
        nemesis.strike("remove-broker", "broker-3")
    assert nemesis.memory.system.brokers[2].process.state() is ProcessState.RUNNING
    nemesis.memory.system.admin.deaf = False
    (entry,) = nemesis.ledger.still_open()
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven, "it is registered by the session that it has had all along"


class TestReassign:
    def test_moves_to_as_many_brokers_as_have_none(self, nemesis: Nemesis) -> None:
        nemesis.strike("reassign", "partition(orders, 0)")
        moved = replicas(nemesis)[0]
        assert {4, 5} < set(moved)
        assert len(moved) == 3

    def test_or_one_replica(self, nemesis: Nemesis) -> None:
        nemesis.strike("reassign", "partition(orders, 0)", replicas="one")
        assert len({4, 5} & set(replicas(nemesis)[0])) == 1

    def test_of_the_target_alone(self, nemesis: Nemesis) -> None:
        nemesis.strike("reassign", "topic(orders) - partition(orders, 1)")
        assert replicas(nemesis)[1] == (2, 3, 4)
        assert replicas(nemesis)[0] != (1, 2, 3)
        assert replicas(nemesis)[2] != (3, 4, 5)

    def test_needs_somewhere_to_move_to(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.replicas = {0: [1, 2, 3, 4, 5]}
        with pytest.raises(Unplannable, match=r"orders-0 has replicas on .*no other broker"):
            nemesis.aim("reassign", "partition(orders, 0)")

    def test_reassignment_is_not_proven_before_the_new_replica_is_in_sync(
        self, nemesis: Nemesis
    ) -> None:
        entry = nemesis.strike("reassign", "partition(orders, 0)")
        nemesis.memory.system.admin.isrs["orders", 0] = list(replicas(nemesis)[0][:2])
        assert not nemesis.bitten(entry).proven

    def test_of_one_partition_by_two_faults_is_taken_back_by_the_last(
        self, nemesis: Nemesis
    ) -> None:
        first = nemesis.strike("reassign", "partition(orders, 0)", seed=1)
        second = nemesis.strike("reassign", "partition(orders, 0)", replicas="one")
        moved_last = replicas(nemesis)[0]
        assert moved_last != (1, 2, 3)
        assert "reassign#1 is active" in str(nemesis.bitten(second).observations["not observed"])
        nemesis.executor.heal(first)
        assert replicas(nemesis)[0] == moved_last
        nemesis.executor.heal(second)
        assert replicas(nemesis)[0] == (1, 2, 3)
        assert nemesis.healed(first).proven
        assert nemesis.healed(second).proven

    def test_heal_without_an_answer_is_repeated(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("reassign", "partition(orders, 0)")
        nemesis.memory.system.admin.refusal = AdminTimeout("lost")
        with pytest.raises(HealFailed, match="lost"):
            nemesis.executor.heal(entry)
        assert not nemesis.healed(entry).proven
        nemesis.memory.system.admin.refusal = None
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_observed_heal_needs_no_answer(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("reassign", "partition(orders, 0)")
        nemesis.memory.system.admin.silent = True
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_of_a_topic_that_was_deleted_meanwhile_has_nothing_to_take_back(
        self, nemesis: Nemesis
    ) -> None:
        entry = nemesis.strike("reassign", "partition(orders, 0)")
        nemesis.memory.system.topics = {}
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_reassignment_blocked_by_a_dead_broker_is_not_proven(self, nemesis: Nemesis) -> None:
        nemesis.strike("kill", "broker-1 + broker-4")
        entry = nemesis.strike("reassign", "partition(orders, 1)")
        nemesis.memory.system.admin.isrs["orders", 1] = [3]
        proof = nemesis.bitten(entry)
        assert not proof.proven
        assert proof.observations["not observed"] == {"moved to": {"orders-1": "kill#1 is active"}}

    def test_temporarily_refused_heal_is_repeated_until_accepted(self, nemesis: Nemesis) -> None:
        """A broker that is to have a replica back is down by another fault."""
        entry = nemesis.strike("reassign", "partition(orders, 0)", replicas="one")
        admin = nemesis.memory.system.admin
        admin.refusal, admin.refusals = OrderRefused("broker 2 is not live"), 2
        admin.answer_ms = 60_000
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_permanently_refused_heal_gives_its_reason(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("reassign", "partition(orders, 0)", replicas="one")
        nemesis.memory.system.admin.refusal = OrderRefused("broker 2 is not live")
        with pytest.raises(HealFailed, match="broker 2 is not live"):
            nemesis.executor.heal(entry)

    def test_that_is_refused_says_why(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.admin.refusal = OrderRefused("INVALID_REPLICA_ASSIGNMENT")
        with pytest.raises(OrderRefused, match="INVALID_REPLICA_ASSIGNMENT"):
            nemesis.strike("reassign", "partition(orders, 0)")


class TestElections:
    def test_the_preferred_one_is_in_sync_and_did_not_lead(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.admin.isrs["orders", 0] = [1, 3]
        for seed in range(10):
            (effect,) = nemesis.aim(
                "elect-preferred", "partition(orders, 0)", seed=seed
            ).plan.effects
            assert str(effect).startswith("elect broker-3 for orders-0")

    def test_preferred_election_without_another_isr_member_is_unplannable(
        self, nemesis: Nemesis
    ) -> None:
        nemesis.memory.system.admin.isrs["orders", 0] = [1]
        with pytest.raises(Unplannable, match="its ISR has only the leader broker-1"):
            nemesis.aim("elect-preferred", "partition(orders, 0)")

    def test_the_old_leader_is_elected_again(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("elect-preferred", "partition(orders, 0)")
        assert nemesis.memory.system.view().partitions["orders", 0].leader != 1
        nemesis.executor.heal(entry)
        assert nemesis.memory.system.view().partitions["orders", 0].leader == 1

    def test_unclean_election_takes_effect_without_live_isr_members(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.admin.isrs["orders", 0] = [1]
        nemesis.strike("kill", "broker-1")
        entry = nemesis.strike("elect-unclean", "partition(orders, 0)")
        assert entry.target.partitions == ("orders-0",)
        proof = nemesis.bitten(entry)
        assert proof.observations == {"led by one outside the ISR": {"orders-0": "broker-2"}}
        assert proof.proven

    def test_and_nowhere_else(self, nemesis: Nemesis) -> None:
        assert not nemesis.bitten(nemesis.strike("elect-unclean", "topic(orders)")).proven

    def test_a_leader_that_came_back_by_itself_is_no_unclean_election(
        self, nemesis: Nemesis
    ) -> None:
        admin = nemesis.memory.system.admin
        admin.isrs["orders", 0] = [1]
        killed = nemesis.strike("kill", "broker-1")
        admin.deaf = True
        entry = nemesis.strike("elect-unclean", "partition(orders, 0)")
        nemesis.executor.heal(killed)
        assert not nemesis.bitten(entry).proven


class TestSettings:
    def test_a_value_that_it_had_already_is_not_proven(self, nemesis: Nemesis) -> None:
        nemesis.memory.system.admin.configs["orders"] = {"min.insync.replicas": "2"}
        entry = nemesis.strike("alter-min-isr", "topic(orders)", min_insync_replicas=2)
        assert not nemesis.bitten(entry).proven
        assert not nemesis.memory.system.admin.orders

    def test_a_topic_that_had_none_of_its_own_has_none_again(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("alter-min-isr", "topic(orders)", min_insync_replicas=2)
        nemesis.executor.heal(entry)
        assert nemesis.memory.system.admin.configs["orders"] == {}
        assert nemesis.healed(entry).proven


class TestRemovedBrokers:
    def test_end_when_they_have_no_replica_any_more(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("remove-broker", "broker-3")
        assert all(3 not in ids for ids in replicas(nemesis).values())
        assert nemesis.bitten(entry).observations == {
            "ended by itself after SIGTERM, status": {"broker-3": 0},
            "replicas left": {"broker-3": []},
            "session closed": {"broker-3": "closed"},
        }
        assert nemesis.ledger.holding("broker-3") == entry.fault_id

    def test_two_at_once(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("remove-broker", "broker-4 + broker-5")
        assert nemesis.bitten(entry).proven
        assert {3, 4, 5}.intersection(*replicas(nemesis).values()) == {3}
        nemesis.executor.heal(entry)
        assert nemesis.healed(entry).proven

    def test_leave_as_many_as_there_are_replicas(self, nemesis: Nemesis) -> None:
        with pytest.raises(Unplannable, match="no other broker"):
            nemesis.aim("remove-broker", "broker-1 + broker-2 + broker-3")

    def test_are_brokers(self, nemesis: Nemesis) -> None:
        with pytest.raises(Unplannable, match="zookeeper-1"):
            nemesis.aim("remove-broker", "zookeeper")


def test_a_target_is_the_partitions_and_no_server(nemesis: Nemesis) -> None:
    nemesis.memory.system.admin.isrs["orders", 2] = [5]
    nemesis.memory.system.brokers[4].process.signal(9)
    target = nemesis.aim("reassign", "topic(orders) - partition(orders, 0)", replicas="one").target
    assert target.partitions == ("orders-1", "orders-2")
    assert (target.servers, target.nodes) == ((), ())
    assert [one.leader for one in target.placed] == ["broker-2", None]
    with pytest.raises(TargetUnavailable, match="matches no partition"):
        nemesis.aim("reassign", "partition(orders, 7)")


def test_any_is_the_partition_that_other_targets_mean_by_it(nemesis: Nemesis) -> None:
    for seed in range(10):
        (of_ours,) = nemesis.aim("reassign", "partition(orders, any)", seed=seed).target.placed
        theirs = resolve(parse("leader(orders, any)"), nemesis.memory.cluster, seed)
        assert of_ours.leader in theirs.servers


@pytest.mark.parametrize("fault", [f.name for f in (*ADMIN, *CHURN) if not f.aim.affects_servers])
def test_orders_affect_no_server(nemesis: Nemesis, fault: str) -> None:
    aims = {"alter-min-isr": "topic(orders)"} | {one.name: "broker-1 + broker-2" for one in CHURN}
    target = nemesis.aim(fault, aims.get(fault, "partition(orders, 0)")).target
    assert target.servers == ()
    assert target.partitions


def test_own_topics_are_on_the_targets_brokers(nemesis: Nemesis) -> None:
    nemesis.strike("create-topic", "broker-2 + broker-4", topics=3)
    found = nemesis.memory.system.view().partitions
    own = {key: one for key, one in found.items() if key[0] != "orders"}
    assert len({topic for topic, _ in own}) == 3
    assert {frozenset(one.replicas) for one in own.values()} == {frozenset({2, 4})}


def test_two_that_make_topics_do_not_share_them(nemesis: Nemesis) -> None:
    first = nemesis.strike("create-topic", "all", seed=1)
    second = nemesis.strike("grow-topic", "all", seed=2)
    assert nemesis.bitten(first).proven
    assert nemesis.bitten(second).proven
    nemesis.executor.heal(first)
    assert nemesis.bitten(second).proven
    assert nemesis.healed(first).proven
