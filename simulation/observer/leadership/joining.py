"""**JoinersHaveAll**: a leader lets into the ISR whoever has all that was committed before it led,
and since: nobody whose log ends below where the leader's epoch begins, or below its high watermark
(KAFKA-7128; ``Partition.isFollowerInSync``).

Its watermark alone says too little at first. Judged when the larger ISR is proposed, by the
replicas' logs: who is let in has all a few ms later, when its next fetch is answered, and whether
it is elected before that is a matter of luck.
"""

from collections.abc import Iterable

from ackproof.broker.replication.events import Effect, Event, LeaderAndIsr, WriteIsr
from ackproof.broker.replication.replica import Replica, Role
from simulation.partition.invariants import Partition
from simulation.partition.seat import Seat
from simulation.violation import Violation


def stepped(
    broker: int, replica: Replica, partition: Partition, event: Event, effects: Iterable[Effect]
) -> None:
    """To be told before the partition is, for which whoever joins is whole. Raises Violation."""
    if replica.role is not Role.LEADER or not partition.checks_data:
        return
    seat = partition.seat(broker)
    if type(event) is LeaderAndIsr:
        seat.began.setdefault(replica.leader_epoch, seat.log.end)
    for effect in effects:
        if type(effect) is WriteIsr and _is_sure(seat) and _leads(broker, replica, partition):
            for joining in set(effect.isr) - set(replica.isr):
                _has_all(broker, replica, partition, joining)


def _has_all(broker: int, replica: Replica, partition: Partition, joining: int) -> None:
    log, began = partition.seat(joining).log, partition.seat(broker).began[replica.leader_epoch]
    if _is_sure(partition.seat(joining)) and log.end < max(began, replica.high_watermark):
        raise Violation(
            "JoinersHaveAll",
            f"{partition.name}: leader {broker}, whose epoch begins at {began} and whose high "
            f"watermark is {replica.high_watermark}, lets broker {joining} into the ISR, whose log "
            f"is {log}",
        )


def _is_sure(seat: Seat) -> bool:
    """Else what it has may be less than what it had when it was asked, or asked."""
    return seat.readable and seat.known and seat.is_whole


def _leads(broker: int, replica: Replica, partition: Partition) -> bool:
    """Deposed without knowing it, it has followers that follow another, and have cut their logs."""
    state = partition.state
    now = (broker, replica.leader_epoch)
    return state is not None and (state.leader, state.leader_epoch) == now
