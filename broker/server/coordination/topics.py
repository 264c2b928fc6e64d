"""Topics without a controller: written by commands that any broker runs."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.coordination.admin import Admin, Outcome
from ackproof.broker.coordination.nodes import PartitionView
from ackproof.broker.server.admin import Refused
from ackproof.broker.server.coordination.event_loop import Commands
from ackproof.broker.server.coordination.zk_nodes import Reader
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.server.zk.kafka_zk import TopicExists, UnknownTopic
from ackproof.broker.server.zk.session import ZkClosed
from ackproof.broker.types import BrokerId

TIMEOUT_S = 30.0
"""The time for which a command waits for brokers to do their part. One that is down never may."""

DELETION_TIMEOUT_S = 24 * 3600.0
"""The time for which a deletion waits. A broker that is down does its part when it is back. As with
a controller, the topic's name is taken until then."""

PATIENCE_S = 5.0
"""The time without progress after which a creation has failed. The next one cleans up."""

CHECK_INTERVAL_S = 0.1

NUMBERS = Mapping[int, Sequence[int]]


class LedTopics:
    """A :class:`~broker.server.admin.TopicStore`. ``spawn`` starts a task and owns it: a
    command continues when no client waits for it any more."""

    def __init__(
        self, me: BrokerId, reader: Reader, commands: Commands, admin: Admin, spawn: Spawn
    ) -> None:
        self._me = me
        self._reader = reader
        self._commands = commands
        self._admin = admin
        self._spawn = spawn
        self._creating: set[str] = set()
        self._deleting: set[str] = set()

    @property
    def waiting(self) -> int:
        """The number of topics that are being created or deleted, and of running commands."""
        return len(self._creating | self._deleting) + self._commands.waiting

    async def topics(self) -> set[str]:
        """Return the names of all topics."""
        return set(await self._reader.topics())

    async def has_topic(self, topic: str) -> bool:
        """Return whether there is such a topic."""
        return bool(await self._reader.assigned([topic]))

    async def topic_assignments(self, topics: Iterable[str]) -> dict[str, TopicAssignment]:
        """Return the assignments of those topics that have a partition."""
        found = {}
        for topic in sorted(set(topics)):
            nodes = await self._reader.topic(topic)
            views = {n: v for n, v in nodes.partitions.items() if v.replicas is not None}
            if views:
                parts = {number: _assignment(view) for number, view in sorted(views.items())}
                topic_id = next(view.topic_id for view in views.values())
                found[topic] = TopicAssignment(topic_id=topic_id, partitions=parts)
        return found

    async def partition_count(self, topic: str) -> int:
        """Return how many partitions ``topic`` has, or will have when it is created. The result is
        0 if there is no such topic, or nothing of it exists yet.

        The partitions appear one by one. Each has a path in ``partitions_reassigned``, and all have
        theirs before the first appears. A count of the existing partitions could be one of three,
        and the broker would keep it for as long as it runs.
        """
        nodes = await self._reader.topic(topic)
        there = any(view.replicas is not None for view in nodes.partitions.values())
        return len(nodes.partitions) if there else 0

    async def create_topic(
        self, topic: str, assignment: NUMBERS, config: Mapping[str, str]
    ) -> None:
        """Create a topic, and return when all replicas are started and the partitions exist.

        Raises:
            TopicExists: also when another broker was faster.
            Refused: not all brokers did their part.
        """
        if topic in self._creating:
            raise TopicExists(f"topic {topic} is being created")
        self._creating.add(topic)
        outcome = await self._to_its_end(self._create(topic, assignment, config))
        if outcome is Outcome.EXISTS:
            raise TopicExists(f"topic {topic} exists already")
        _check(outcome, topic)

    async def _create(self, topic: str, assignment: NUMBERS, config: Mapping[str, str]) -> Outcome:
        try:
            await self._let_others_finish(topic)
            command = self._admin.create_topic(topic, _replicas(assignment))
            return await self._commands.run(command, TIMEOUT_S, {topic: config})
        finally:
            self._creating.discard(topic)

    async def _let_others_finish(self, topic: str) -> None:
        """Wait while another broker creates the topic. ``cleanFailedTopicCreationAttempts`` cannot
        distinguish a failed attempt from a running one. If clients ask several brokers at once,
        again and again, each would undo what the previous one has begun."""
        loop = asyncio.get_running_loop()
        patience_s = PATIENCE_S + self._me % 10  # not all brokers at the same time
        seen: object = None
        until = 0.0
        while True:
            nodes = await self._reader.topic(topic)
            begun = [n for n, view in nodes.partitions.items() if view.replicas is None]
            now = loop.time()
            if seen != (state := (len(begun), len(nodes.partitions))):
                seen, until = state, now + patience_s
            if not begun or now >= until:
                return
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def add_partitions(self, topic: str, added: NUMBERS) -> None:
        """Add partitions, and return when their replicas are started and the partitions exist.

        Raises:
            UnknownTopic: no such topic.
            Refused: not all brokers did their part.
        """
        if not await self.has_topic(topic):
            raise UnknownTopic(f"topic {topic} does not exist")
        command = self._admin.add_partitions(topic, _replicas(added))
        _check(await self._to_its_end(self._commands.run(command, TIMEOUT_S)), topic)

    async def is_being_deleted(self, topic: str) -> bool:
        """Return whether one of its partitions has an empty target."""
        nodes = await self._reader.topic(topic)
        return any(view.moving_to == () for view in nodes.partitions.values())

    async def delete_topic(self, topic: str) -> None:
        """Begin the deletion. The caller checks when the topic is gone.

        Raises:
            UnknownTopic: no such topic.
        """
        if topic not in await self.topics():
            raise UnknownTopic(f"topic {topic} does not exist")
        if topic not in self._deleting:
            self._deleting.add(topic)
            self._spawn(self._delete(topic))

    async def _delete(self, topic: str) -> None:
        try:
            await self._commands.run(self._admin.delete_topic(topic), DELETION_TIMEOUT_S)
        except ZkClosed:
            return
        finally:
            self._deleting.discard(topic)

    async def _to_its_end(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Run work to its end, even if its client disconnects. A failed creation is cleaned up only
        after a time. If every client waited for less than that, none of them would clean it up."""
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                outcome = await work
            except ZkClosed as error:
                _settle(done, error)
            else:
                _settle(done, outcome)

        self._spawn(run())
        return await done


def _settle(done: "asyncio.Future[Outcome]", outcome: Outcome | Exception) -> None:
    if done.done():
        return
    if isinstance(outcome, Exception):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


def _check(outcome: Outcome, topic: str) -> None:
    """Raise Refused for what the next attempt must clean up."""
    if outcome is Outcome.DONE:
        return
    full = outcome is Outcome.QUEUE_FULL
    error = ErrorCode.throttling_quota_exceeded if full else ErrorCode.request_timed_out
    raise Refused(error, f"{topic}: {outcome.value}")


def _replicas(numbers: NUMBERS) -> dict[int, tuple[BrokerId, ...]]:
    return {number: tuple(map(BrokerId, ids)) for number, ids in numbers.items()}


def _assignment(view: PartitionView) -> ReplicaAssignment:
    """Return the assignment as Kafka shows it: old and new replicas together, while it moves."""
    if not view.moving_to:
        return ReplicaAssignment(replicas=view.assigned)
    adding = tuple(b for b in view.moving_to if b not in view.assigned)
    leaving = tuple(b for b in view.assigned if b not in view.moving_to)
    removing = (*leaving, *view.removing)
    return ReplicaAssignment(
        replicas=(*view.moving_to, *removing), adding=adding, removing=removing
    )
