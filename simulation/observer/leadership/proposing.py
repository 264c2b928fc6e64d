"""**OneIsrAtATime**: a leader proposes an ISR when it knows what became of the one before (KIP-497;
Kafka's ``PartitionState.isInflight``).

Until then either of the two may be in ZooKeeper, and its watermark waits for both. 1 is about to
let 3 in, and hears once more what it knows already. Taken for news that makes the proposal void, it
would wait for 3 no more, which may be in the ISR by now, and be elected next. That this happens is
a matter of luck; that 1 proposes once more what is under way is not.
"""

from collections.abc import Iterable

from ackproof.broker.replication.events import Effect, Event, IsrRefused, IsrWriteFailed, WriteIsr
from ackproof.broker.replication.replica import Replica, Role
from simulation.partition.invariants import Partition
from simulation.violation import Violation


def stepped(
    broker: int, replica: Replica, partition: Partition, event: Event, effects: Iterable[Effect]
) -> None:
    """A replica has taken ``event`` in; raises Violation."""
    seat = partition.seat(broker)
    under_way = seat.under_way
    if under_way is not None and _is_heard_of(under_way, replica, event):
        under_way = None
    for effect in effects:
        if type(effect) is WriteIsr:
            if under_way is not None:
                what = f"leader {broker} proposes the ISR {list(effect.isr)}"
                raise Violation(
                    "OneIsrAtATime",
                    f"{partition.name}: {what}, and has not heard of {list(under_way.isr)} yet",
                )
            under_way = effect
    seat.under_way = under_way


def _is_heard_of(proposal: WriteIsr, replica: Replica, event: Event) -> bool:
    """It is written, refused, or to be tried again; or another state is, which makes it void."""
    if replica.role is not Role.LEADER or replica.leader_epoch != proposal.leader_epoch:
        return True
    if replica.zk_version > proposal.zk_version:
        return True
    match event:
        case IsrRefused():
            return event.leader_epoch == proposal.leader_epoch
        case IsrWriteFailed():
            return event.leader_epoch == proposal.leader_epoch and not event.conflict
    return False
