"""A topic in the hands of one admin command (fenced)."""

from ackproof.broker.coordination.administration.admin_steps import TopicNodes
from ackproof.broker.coordination.ops import Op, TakeTopic
from ackproof.broker.types import ZkVersion


class Hold:
    """Whatever the command writes about its topic moves the version of ``/brokers/topics/T`` on.

    So of two commands the one that read the topic later goes on, and the other is refused. Else one
    adds a partition while the other deletes all that it saw; the first completes what it has begun,
    and finds its path in ``partitions_reassigned`` there as it was: put anew by the second, empty,
    and at version 0 again.
    """

    def __init__(self, topic: str, nodes: TopicNodes) -> None:
        self.version = nodes.version
        self._topic = topic
        self._topic_id = nodes.topic_id

    def taking(self) -> Op:
        """To be written with whatever is written next."""
        return TakeTopic(topic=self._topic, topic_id=self._topic_id, expected=self.version)

    def moved_on(self) -> None:
        """It was written."""
        self.version = ZkVersion(self.version + 1)


def held(hold: Hold | None, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """``ops`` in the hold of their topic; as they are without one."""
    return ops if hold is None else (hold.taking(), *ops)
