"""The broker's assertions on itself: each fails when it must, and holds otherwise."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.groups.state import GroupState
from ackproof.broker.invariants import BrokenInvariant
from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.local import Epochs
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Offset, ZkVersion
from simulation.machines.disk import SimulatedDisk
from tests.support.builders.batches import batch
from tests.support.worlds.controlled_partition import TP, led
from tests.support.worlds.group_world import World
from tests.support.worlds.replica_lab import A, Lab


def test_replica_holds_after_each_step() -> None:
    lab = Lab(2)
    lab.elect(A, lab.replicas, to=lab.replicas)
    lab.produce(A, count=2)
    lab[A].check()


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"high_watermark": Offset(9)}, "does not hold"),
        ({"log_start_offset": Offset(1)}, "does not hold"),
        ({"epochs": Epochs(((LeaderEpoch(0), Offset(7)),))}, "begin outside of the log"),
        ({"epochs": Epochs()}, "the latest one in its log is -1"),
    ],
)
def test_replica_finds_a_broken_view_of_its_log(changed: dict[str, Any], what: str) -> None:
    lab = Lab(1)
    lab.elect(A, lab.replicas, to=lab.replicas)
    for name, value in changed.items():
        setattr(lab[A]._log, name, value)
    with pytest.raises(BrokenInvariant, match=what):
        lab[A].check()


@pytest.fixture
def log() -> PartitionLog:
    disk, config = SimulatedDisk(Random(0)), LogConfig(segment_bytes=200)
    opened = PartitionLog.open(Path("/t-0"), config, clean=True, files=disk)
    for offset in range(6):
        opened.append([batch((b"v" * 50,))], offset, offset // 2, 0)
    return opened


def test_log_holds_after_each_operation(log: PartitionLog) -> None:
    log.check()
    for change in (lambda: log.truncate_to(4), log.flush, lambda: log.truncate_fully(9)):
        change()
        log.check()


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda log: log._segments.pop(), "its segments are 0 to"),
        (lambda log: log._segments.reverse(), "begin below the end of the last"),
        (lambda log: setattr(log, "_start", Offset(7)), "it is 7 to 6"),
        (lambda log: setattr(log.flushing, "recovery_point", 7), "7 counts as durable"),
        (lambda log: log.epochs.assign(9, 8), "its epochs are"),
    ],
)
def test_log_check_detects_inconsistent_state(log: PartitionLog, spoil: Any, what: str) -> None:
    spoil(log)
    with pytest.raises(BrokenInvariant, match=what):
        log.check()


def stable() -> Any:
    world = World()  # type: ignore[no-untyped-call]
    world.stable(2)
    return world


def test_groups_hold_after_each_step() -> None:
    stable().groups.check()


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda group: setattr(group.members, "leader", None), "None leads"),
        (lambda group: setattr(group.members, "leader", "other"), "other leads"),
        (lambda group: setattr(group, "state", GroupState.EMPTY), "Empty, with 2 members"),
        (lambda group: setattr(group, "protocol", "other"), "not every member's protocol"),
        (
            lambda group: [setattr(each, "instance_id", "i") for each in group.members],
            "are not unique",
        ),
    ],
)
def test_groups_find_a_broken_group(spoil: Any, what: str) -> None:
    world = stable()
    spoil(world.group)
    with pytest.raises(BrokenInvariant, match=what):
        world.groups.check()


def test_controller_holds_and_finds_a_broken_context() -> None:
    context = led((1, 2), live=(1, 2, 3), stopping=(2,))
    context.check()
    context.stopping.add(BrokerId(4))
    with pytest.raises(BrokenInvariant, match=r"\[4\] stop in order, and are not alive"):
        context.check()
    context.stopping.clear()
    write: Any = SimpleNamespace(controller_epoch=ControllerEpoch(7))
    context.writing[TP] = write
    with pytest.raises(BrokenInvariant, match="are being written in another epoch"):
        context.check()
    del context.writing[TP]
    context.states[TP] = PartitionState(
        leader=BrokerId(3),
        leader_epoch=LeaderEpoch(0),
        isr=(BrokerId(1),),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(0),
    )
    with pytest.raises(BrokenInvariant, match="3 leads"):
        context.check()
