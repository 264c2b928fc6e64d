"""What a review found in the broker and was mended, put back, by its numbers.

Two are not here. 1 is "bounces forgotten at an election" of :mod:`simulation.mutations.catalogue`.
8 (fsync on the event loop) costs time and no record: virtual time does not pass while a disk syncs.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.controller import partitions
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import _Epoch
from ackproof.broker.controller.requests.outbox import Outbox
from ackproof.broker.controller.rules.assignment import assign_replicas
from ackproof.broker.controller.rules.plan import plan
from ackproof.broker.log import manager
from ackproof.broker.log.disk.checkpoints import read_meta_properties, write_meta_properties
from ackproof.broker.replication.events import Stopped, TruncateFully
from ackproof.broker.replication.replica import STEPS, Role
from ackproof.broker.server.admin import topics
from ackproof.broker.server.controller.runtime import ControllerRuntime
from ackproof.broker.server.controller.term import OVER
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic, partition_for
from ackproof.broker.server.groups.rewrite import SLACK_FACTOR, Rewriting
from ackproof.broker.server.groups.shard import GroupShard
from ackproof.broker.server.replication.partition import Partition, Produced, refused
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerMoved, ControllerZk
from ackproof.broker.server.zk.kafka_zk import KafkaZk, TopicExists
from ackproof.broker.types import NO_LEADER, TopicPartition
from simulation.mutations.swap import Mutation, Swap

RECORDS_AT_ONCE: Final = 500

_plan = plan


def _stays_leader(_replica: Any, _event: Any) -> Any:
    return ()


def _forgets_who_waits(self: Partition) -> None:
    for waiting in self._producers.values():
        if not waiting.future.done():
            waiting.future.set_result(refused(ErrorCode.not_leader_or_follower))
    self._producers.clear()
    self.step(Stopped())


def _cuts_without_a_word(self: Partition, cut: Any, _event: Any, _committed: Any) -> None:
    if isinstance(cut, TruncateFully):
        self.log.truncate_fully(cut.offset)
    else:
        self.log.truncate_to(cut.offset)


def _again_by_number(self: GroupShard, records: Sequence[Any]) -> list[asyncio.Future[Produced]]:
    return [
        self.append(records[first : first + RECORDS_AT_ONCE])
        for first in range(0, len(records), RECORDS_AT_ONCE)
    ]


def _due_at_once(self: Rewriting) -> bool:
    limit = max(self._slack_bytes, SLACK_FACTOR * self._in_use_bytes)
    return not self._running and self._shard.appended_bytes > limit


def _counted_in_the_cache(self: OffsetsTopic, group: str) -> TopicPartition:
    known = len(self._metadata.topics.get(OFFSETS_TOPIC, {}))
    return TopicPartition(OFFSETS_TOPIC, partition_for(group, known or self.partitions))


def _anybodys(directories: Any, owner: Any) -> None:
    for directory in directories:
        if read_meta_properties(directory) is None:
            write_meta_properties(directory, owner)


async def _settings_first(
    self: KafkaZk, topic: str, created: Any, config: Any, session: Any
) -> bool:
    path, data = znodes.topic_config(topic), znodes.encode_config(config)
    if await self.session.get(path) is None:
        await self.session.create(path, data, session)
    else:
        await self.session.set(path, data, -1, session)
    if await self.has_topic(topic):
        raise TopicExists(f"topic {topic} exists already")
    await self.session.create(znodes.topic(topic), znodes.encode_topic(created), session)
    return True


async def _as_it_is_known(self: ControllerZk, tenure: Any, topic: str, assignment: Any) -> None:
    path, data = znodes.topic(topic), znodes.encode_topic(assignment)
    if await self._session.get(path) is not None:
        await self._fenced(tenure, lambda t: t.set_data(path, data, version=-1))


async def _ends_with_its_job(self: ControllerRuntime, _what: str, job: Any, group: Any) -> None:
    try:
        await job(group)
    except OVER as error:
        self._resign()
        if isinstance(error, ControllerMoved):
            self._contest_soon()


def _stumbles(context: Context, tp: TopicPartition) -> Any:
    """Something has to fail for a job to fail: here the election when a leader is gone."""
    state = context.states.get(tp)
    if state is not None and state.leader not in (NO_LEADER, *context.live):
        raise KeyError(tp)
    return _plan(context, tp)


def _each_or_none(_self: Outbox, tps: Any, action: Any) -> None:
    for tp in tuple(tps):
        action(tp)


def _takes_or_fails(self: _Epoch, event: Any) -> None:
    self._handlers[type(event)](event)
    self._settle()


def _from_the_first(
    alive: Any, partitions: int, factor: int, first_partition: int = 0, start: int = 0
) -> Any:
    del start
    return assign_replicas(alive, partitions, factor, first_partition)


RELAPSES: Final[dict[str, Mutation]] = {
    "2: a deleted topic's producers are answered twice": Mutation(
        Swap(STEPS[Role.LEADER], Stopped, _stays_leader),
        Swap(Partition, "stop", _forgets_who_waits),
    ),
    "3: a cut inside a batch is kept from the replica": Mutation(
        Swap(Partition, "_truncate", _cuts_without_a_word)
    ),
    "4: groups are written again by number, not by bytes": Mutation(
        Swap(GroupShard, "append_again", _again_by_number),
        Swap(Rewriting, "is_due", property(_due_at_once)),
    ),
    "5: groups hash by the partitions that are known": Mutation(
        Swap(OffsetsTopic, "of", _counted_in_the_cache)
    ),
    "6: log directories are anybody's": Mutation(Swap(manager, "claim", _anybodys)),
    "7a: settings are written before their topic": Mutation(
        Swap(KafkaZk, "_created", _settings_first)
    ),
    "7b: an assignment overwrites partitions it does not know": Mutation(
        Swap(ControllerZk, "write_assignment", _as_it_is_known)
    ),
    "9: a decision that fails ends the broker": Mutation(
        Swap(ControllerRuntime, "_do", _ends_with_its_job),
        Swap(_Epoch, "take", _takes_or_fails),
        Swap(Outbox, "each", _each_or_none),
        Swap(partitions, "plan", _stumbles),
    ),
    "10: every topic begins at the first broker": Mutation(
        Swap(topics, "assign_replicas", _from_the_first)
    ),
}
