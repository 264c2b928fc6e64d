"""Which partitions ``auto.leader.rebalance.enable`` gives back to their preferred leaders."""

from collections import defaultdict

from ackproof.broker.controller.context import Context
from ackproof.broker.types import BrokerId, TopicPartition


def imbalanced(context: Context, percentage: int) -> list[TopicPartition]:
    """The partitions to move: those not led by their preferred replica although it is online and
    in the ISR, on brokers where that is so for more than ``percentage`` of the partitions that
    they should lead (``leader.imbalance.per.broker.percentage``)."""
    should_lead: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for tp in context.partitions():
        assignment = context.assignment(tp)
        if assignment and assignment.replicas and not context.deletes(tp.topic):
            should_lead[assignment.replicas[0]].append(tp)
    chosen: list[TopicPartition] = []
    for broker in sorted(should_lead.keys() & context.online):
        mine = should_lead[broker]
        elsewhere = [tp for tp in mine if tp in context.states and not _leads(context, broker, tp)]
        if len(elsewhere) * 100 > percentage * len(mine):
            chosen += [tp for tp in elsewhere if broker in context.states[tp].isr]
    return chosen


def _leads(context: Context, broker: BrokerId, tp: TopicPartition) -> bool:
    return context.states[tp].leader == broker
