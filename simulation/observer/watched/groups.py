"""What coordinators of groups do, and what they tell of a group."""

import contextlib
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Stored
from ackproof.broker.groups.groups import Groups
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.groups.shard import GroupShard
from ackproof.broker.server.requests import describe_groups
from ackproof.broker.server.requests.context import Context
from simulation.observer.coordinators import Coordinators, buried
from simulation.observer.groups import described, view, watch
from simulation.observer.groups.failing_stores import FailingStores
from simulation.observer.groups.imagined import Imagined
from simulation.observer.loading.asked import Asked
from simulation.observer.loading.outliving import Outliving
from simulation.observer.observer import Observer
from simulation.observer.watched.wrapping import living, replace
from simulation.violation import Violation


def groups(undo: contextlib.ExitStack, observer: Observer, brokers: Mapping[str, int]) -> None:
    coordinators, failing_stores, imagined = Coordinators(), FailingStores(), Imagined()
    make, close, decide = GroupShard.__init__, GroupShard.close, Groups.step
    outliving, asked, look = Outliving(), Asked(), GroupCoordinator.tick

    def made(self: GroupShard, *args: Any) -> None:
        make(self, *args)
        if (process := living()) is not None and not asked.rehearses:
            with observer.failing():
                coordinators.loaded(brokers[process.host], self)

    def closed(self: GroupShard) -> None:
        waiting = [future for _, future in self._waiting.values()]
        close(self)
        with observer.failing():
            coordinators.closed(self, waiting)

    def step(self: Groups, event: Any) -> Any:
        if asked.rehearses:
            return decide(self, event)
        before, known = coordinators.stable(self, event), watch.before(self, event)
        if isinstance(event, Stored):
            if event.error is not ErrorCode.none:
                outliving.failed(self)
            with observer.failing():
                failing_stores.before(self, event)
        effects = decide(self, event)
        with observer.failing():
            watch.check(self, event, effects, known)
            coordinators.stepped(self, event, effects, before)
            imagined.after(self, event, decide)
        observer.group_ends.update(buried(effects))
        return effects

    def tick(self: GroupCoordinator) -> None:
        look(self)
        with observer.failing():
            outliving.ticked(self, self._clock.now())
            asked.ticked(self)

    replace(undo, GroupCoordinator, "tick", tick)
    replace(undo, GroupShard, "__init__", made)
    replace(undo, GroupShard, "close", closed)
    replace(undo, Groups, "step", step)


def coordinating(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = GroupCoordinator.tick

    def tick(self: GroupCoordinator) -> None:
        original(self)
        with observer.failing():
            for shard, _ in self._shards.values():
                if self._replicas.hosted(shard.partition.tp) is not shard.partition:
                    what = f"groups of {shard.partition.tp}, which is not there any more, are kept"
                    raise Violation("CoordinatorsLoad", what)

    replace(undo, GroupCoordinator, "tick", tick)


def descriptions(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = describe_groups._describe

    def describe(group_id: str, context: Context) -> Any:
        answer, shard = original(group_id, context), context.groups.shard(group_id)
        if isinstance(shard, GroupShard):
            group = shard.groups.by_id.get(group_id)
            with observer.failing():
                described.check(answer, None if group is None else view.of(group))
        return answer

    replace(undo, describe_groups, "_describe", describe)
