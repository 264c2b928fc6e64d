"""Who would be in an ISR, without a controller, without what the others have: found, and nobody
else."""

from typing import Any

import pytest

from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.hosting import partition
from ackproof.broker.coordination.hosting.leading import Leading
from ackproof.broker.coordination.hosting.partition import HostedPartition
from ackproof.broker.coordination.nodes import Assigned, PartitionView
from ackproof.broker.coordination.settings import Settings
from ackproof.broker.coordination.variants import Fenced, Printed, Variant
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition, ZkVersion
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.writing import leaving
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
ME, OTHER = BrokerId(1), BrokerId(2)
NOBODY: Any = None


def hosted(variant: Variant, *, suspect: bool = True) -> HostedPartition:
    context = Context(settings=Settings(broker=ME, unclean_start=True), variant=variant)
    return HostedPartition(TP, None, context, NOBODY, NOBODY, suspect=suspect)


def leading(variant: Variant) -> Leading:
    """Of a partition that has another replica, which is not in sync."""
    home = hosted(variant, suspect=False)
    view = PartitionView(replicas=Assigned(replicas=(ME, OTHER), version=ZkVersion(0)))
    version = ZkVersion(0)
    home.leading = Leading(home, epoch=LeaderEpoch(1), isr=(ME,), version=version, view=view)
    return home.leading


def test_who_leaves_and_who_lets_nobody_in() -> None:
    home, led = hosted(Fenced()), leading(Fenced())
    leaving.hosts(home)
    leaving.waits(led)
    assert home.is_suspect, "a twin has left"
    assert not home.context.outbox.drain()
    assert not led.serves
    assert not led.partition.context.outbox.drain()


def test_as_printed_there_is_no_such_fence() -> None:
    leaving.hosts(hosted(Printed()))
    leaving.waits(leading(Printed()))


def leaves_once(self: HostedPartition, view: PartitionView) -> bool:
    ops = partition.leaving(self.context.me, self.tp, view)
    if ops is None:
        return False
    self.is_suspect = False
    self.write(ops, self._looked)
    return True


@pytest.mark.parametrize(
    "wrong",
    [
        Swap(Fenced, "leaves_isr_when_unclean", False),
        Swap(HostedPartition, "_leave_isr", lambda *_: False),
        Swap(HostedPartition, "_leave_isr", leaves_once),
        Swap(partition, "leaving", lambda *_: None),
    ],
    ids=["never", "is not asked to", "not when it was refused", "has nothing to write"],
)
def test_who_stays_is_found(wrong: Swap) -> None:
    with (
        Mutation(wrong).active(),
        pytest.raises(Violation, match="SuspectsLeave: broker 1 ended in disorder: would not"),
    ):
        leaving.hosts(hosted(Fenced()))


def test_who_lets_in_whoever_has_caught_up_is_found() -> None:
    with (
        Mutation(Swap(Fenced, "in_sync", Printed.in_sync)).active(),
        pytest.raises(Violation, match=r"CaughtUpIsNotInSync: broker 1 would .* ISR \(1, 2\)"),
    ):
        leaving.waits(leading(Fenced()))
