"""The partition and replica state machines do what their tables say, and nothing else."""

import itertools

import pytest

from ackproof.broker.controller import state_machines
from ackproof.broker.controller.state_machines import (
    IllegalTransition,
    PartitionPhase,
    PartitionPhases,
    ReplicaPhase,
    ReplicaPhases,
)
from ackproof.broker.types import BrokerId, TopicPartition

TP = TopicPartition("orders", 0)
BROKER = BrokerId(1)

PARTITION_WAYS = {
    PartitionPhase.NON_EXISTENT: [],
    PartitionPhase.NEW: [PartitionPhase.NEW],
    PartitionPhase.ONLINE: [PartitionPhase.NEW, PartitionPhase.ONLINE],
    PartitionPhase.OFFLINE: [PartitionPhase.NEW, PartitionPhase.OFFLINE],
}
_TO_OFFLINE = [ReplicaPhase.NEW, ReplicaPhase.OFFLINE]
_TO_STARTED = [*_TO_OFFLINE, ReplicaPhase.DELETION_STARTED]
REPLICA_WAYS = {
    ReplicaPhase.NON_EXISTENT: [],
    ReplicaPhase.NEW: [ReplicaPhase.NEW],
    ReplicaPhase.ONLINE: [ReplicaPhase.NEW, ReplicaPhase.ONLINE],
    ReplicaPhase.OFFLINE: _TO_OFFLINE,
    ReplicaPhase.DELETION_STARTED: _TO_STARTED,
    ReplicaPhase.DELETION_SUCCESSFUL: [*_TO_STARTED, ReplicaPhase.DELETION_SUCCESSFUL],
    ReplicaPhase.DELETION_INELIGIBLE: [*_TO_OFFLINE, ReplicaPhase.DELETION_INELIGIBLE],
}


@pytest.mark.parametrize(("now", "to"), list(itertools.product(PartitionPhase, repeat=2)))
def test_every_partition_transition(now, to):
    phases = PartitionPhases()
    for step in PARTITION_WAYS[now]:
        phases.move(TP, step)
    assert phases[TP] is now
    if now in state_machines.PARTITION_PREVIOUS[to]:
        phases.move(TP, to)
        assert phases[TP] is to
    else:
        with pytest.raises(IllegalTransition, match=f"{TP} is {now.value}"):
            phases.move(TP, to)
        assert phases[TP] is now


@pytest.mark.parametrize(("now", "to"), list(itertools.product(ReplicaPhase, repeat=2)))
def test_every_replica_transition(now, to):
    phases = ReplicaPhases()
    for step in REPLICA_WAYS[now]:
        phases.move(TP, BROKER, step)
    assert phases[TP, BROKER] is now
    if now in state_machines.REPLICA_PREVIOUS[to]:
        phases.move(TP, BROKER, to)
        assert phases[TP, BROKER] is to
    else:
        with pytest.raises(IllegalTransition, match=f"replica 1 of {TP} is {now.value}"):
            phases.move(TP, BROKER, to)
        assert phases[TP, BROKER] is now


def test_tables_name_every_state():
    assert state_machines.PARTITION_PREVIOUS.keys() == set(PartitionPhase)
    assert state_machines.REPLICA_PREVIOUS.keys() == set(ReplicaPhase)
