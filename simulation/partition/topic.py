"""A topic and its partitions, as ZooKeeper has them."""

from dataclasses import dataclass, field

from ackproof.broker.controller.cluster import TopicAssignment
from simulation.partition.invariants import Partition


@dataclass(slots=True)
class Topic:
    """A topic."""

    topic_id: object
    assignment: TopicAssignment
    partitions: dict[int, Partition] = field(default_factory=dict)
    is_doomed: bool = False
    """It is being deleted: nothing is promised any more."""

    def replicas(self, number: int) -> tuple[int, ...] | None:
        """Of a partition; None while they are being moved."""
        assignment = self.assignment.partitions[number]
        return None if assignment.adding or assignment.removing else assignment.replicas
