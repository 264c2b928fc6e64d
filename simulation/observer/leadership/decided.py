"""What a controller has decided, as it knows it: where who leads is settled, and who could."""

from collections.abc import Iterator, Set

from ackproof.broker.controller.cluster import PartitionState, ReplicaAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.rules.suspicion import suspects
from ackproof.broker.types import BrokerId, TopicPartition


def settled(
    context: Context,
) -> Iterator[tuple[TopicPartition, PartitionState, ReplicaAssignment]]:
    """The partitions that stay, of which nothing is being written; none that a successor has
    written of, who tells of it."""
    for tp, state in context.states.items():
        assignment = context.assignment(tp)
        if assignment is None or tp in context.writing or context.deletes(tp.topic):
            continue
        if state.controller_epoch <= context.epoch:
            yield tp, state, assignment


def trusted(context: Context, tp: TopicPartition, state: PartitionState) -> Set[BrokerId]:
    """Of the ISR, those whose logs have what it says."""
    return set(state.isr) - suspects(context.intents[tp], state, context.live)
