"""The invariants of writes to ZooKeeper: each is broken once and kept once."""

from contextlib import nullcontext
from typing import Any

import pytest
from kazoo.protocol.serialization import CheckVersion, Create, SetData, Transaction

from ackproof.broker.controller.cluster import PartitionState, ReplicaAssignment, TopicAssignment
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.model.partition import PartitionModel, TopicModel
from simulation.model.zookeeper import (
    ReassignmentNode,
    check_announced,
    check_conditional,
    check_removal,
    check_replacement,
)
from tests.support.oracles.violations import violates

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
STATE = "/brokers/topics/t/partitions/0/state"
REPLICAS = "/brokers/topics/t/0/replicas"


def of(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


# --- ZooKeeper/unconditional-write ----------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        SetData(STATE, b"", 3),
        SetData("/config/topics/t", b"", -1),
        SetData(REPLICAS, b"", -1),
        CheckVersion(REPLICAS, 0),
        CheckVersion("/brokers/topics/t/0/leader", -1),  # the node exists
    ],
)
def test_write_with_a_version_is_allowed(written: Any) -> None:
    check_conditional(written)


@pytest.mark.parametrize("written", [SetData(STATE, b"", -1), CheckVersion(REPLICAS, -1)])
def test_write_of_a_state_without_version_is_a_violation(written: Any) -> None:
    transaction = Transaction([CheckVersion("/controller_epoch", 1), written])
    for request in (written, transaction):
        with violates("ZooKeeper/unconditional-write"):
            check_conditional(request)


# --- TopicConfig/change-not-announced -------------------------------------------------------------

NOTE = Create("/config/changes/config_change_", b"", [], 2)


def topic_there(path: str) -> tuple[bytes | None, int]:
    return (b"", 0) if path == "/brokers/topics/t" else (None, -1)


@pytest.mark.parametrize(
    "written",
    [
        Transaction([SetData("/config/topics/t", b"", 3), NOTE]),
        Transaction([Create("/brokers/topics/t", b"", [], 0), SetData("/config/topics/t", b"", 3)]),
        SetData("/config/topics/gone", b"", 3),
        SetData(STATE, b"", 3),
        NOTE,
    ],
)
def test_announced_settings_are_allowed(written: Any) -> None:
    check_announced(written, topic_there)


@pytest.mark.parametrize(
    "written",
    [
        SetData("/config/topics/t", b"", 3),
        Create("/config/brokers/<default>", b"", [], 0),
        Transaction([Create("/brokers/topics/v", b"", [], 0), SetData("/config/topics/t", b"", 3)]),
    ],
)
def test_unannounced_settings_are_a_violation(written: Any) -> None:
    with violates("TopicConfig/change-not-announced"):
        check_announced(written, topic_there)


# --- reassignments and topics --------------------------------------------------------------------


def test_order_names_the_brokers_of_the_order_that_it_replaces() -> None:
    former = ReassignmentNode(of(3), of(4))
    check_replacement(TP, former, ReassignmentNode(of(5), of(3, 4)), assigned=of(1, 2))
    check_replacement(TP, former, ReassignmentNode(of(3, 4), ()), assigned=of(1, 2))
    with violates(r"Reassignment/started-replica-forgotten: .* does not name \[4\]"):
        check_replacement(TP, former, ReassignmentNode(of(5), of(3)), assigned=of(1, 2))


def topic(*replicas: int, adding: Any = (), removing: Any = ()) -> TopicAssignment:
    assigned = ReplicaAssignment(replicas=of(*replicas), adding=adding, removing=removing)
    return TopicAssignment(topic_id=None, partitions={0: assigned})


THERE, MOVED = topic(1, 2), topic(3, 4)
MOVING = topic(3, 4, 1, 2, adding=(3, 4), removing=(1, 2))
MET = (1, 2, 3, 4)
STILL_IN_SYNC = r"t-0: it counts as moved to \[3, 4\]"
NEVER_IN_SYNC = r".* and \[4\] were never in the ISR"


@pytest.mark.parametrize(
    ("before", "after", "isr", "been", "broken"),
    [
        (MOVING, MOVED, (3, 4), MET, None),
        (MOVING, MOVED, (4, 3), MET, None),
        (MOVING, MOVED, (3,), MET, None),  # 4 has left the ISR since
        (MOVING, MOVED, (3, 4, 1), MET, STILL_IN_SYNC),
        (MOVING, MOVED, (1,), MET, STILL_IN_SYNC),
        (MOVING, MOVED, (3,), (1, 2, 3), NEVER_IN_SYNC),
        (MOVING, MOVED, (), (), None),  # a partition without a state is not judged
        (THERE, MOVING, (1, 2), MET, None),
        (MOVING, MOVING, (1, 3), MET, None),
    ],
)
def test_move_ends_when_new_replicas_were_in_sync_and_removed_ones_have_left_the_isr(
    before: TopicAssignment, after: TopicAssignment, isr: Any, been: Any, broken: str | None
) -> None:
    partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
    if isr:
        partition.state = PartitionState(
            leader=isr[0], leader_epoch=3, isr=isr, controller_epoch=1, zk_version=7
        )
    partition.been_in_sync = set(been)
    expected = violates(f"Reassignment/ended-out-of-sync: {broken}") if broken else nullcontext()
    with expected:
        TopicModel(None, before, {0: partition}).assigned("t", after)


def test_move_that_ends_before_its_target_is_a_violation() -> None:
    check_removal(TP, of(2, 3), of(2, 3))
    with violates(r"Reassignment/ended-before-target: t-0 is no longer to move to \[2, 3\]"):
        check_removal(TP, of(2, 3), of(1, 2))


def test_deleted_topic_with_a_remaining_replica_is_a_violation() -> None:
    TopicModel(None, topic(1, 2)).deleted("t", ())
    TopicModel(None, topic(1, 2)).deleted(
        "t", [(3, TP)]
    )  # moved away from 3, which does not know it yet
    with violates(r"Deletion/replica-left: .* broker 2 still has t-0"):
        TopicModel(None, topic(1, 2)).deleted("t", [(2, TP)])


def test_lost_partition_of_a_topic_is_a_violation() -> None:
    partition = PartitionModel("t-1", checks_data=True, note=lambda _: None)
    with violates(r"Partition/disappeared: t has lost its partitions \[1\]"):
        TopicModel(None, topic(1, 2), {1: partition}).assigned("t", topic(1, 2))
