"""What replicas do, and what their leaders and followers tell each other."""

import contextlib
from typing import Any

from ackproof.broker.replication.events import Effect, Event, Fetched
from ackproof.broker.replication.replica import Replica
from ackproof.broker.server.metrics.meters import CONSUMER
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.replication.fetch_session_cache import FetchSession, FetchSessionCache
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.replication.roles import BecomeLeaderOrFollower
from ackproof.broker.types import Millis, TopicPartition
from ackproof.broker.wire.messages.fetch import FetchRequest
from simulation.observer.coverage import REPLICA_EFFECT, REPLICA_EVENT
from simulation.observer.following import known_anew
from simulation.observer.following.lasting import Used
from simulation.observer.moments import following_on
from simulation.observer.observer import Observer
from simulation.observer.untold import asked
from simulation.observer.watched.wrapping import living, replace
from simulation.violation import Violation


def partitions(undo: contextlib.ExitStack, observer: Observer, brokers: dict[str, int]) -> None:
    decide, carry_out = Replica.step, server.Partition.step
    coverage = observer.coverage
    seen: list[Effect] = []
    names: dict[tuple[object, type], tuple[str, str]] = {}

    def replica_step(self: Replica, event: Event) -> Any:
        key = (self.role, type(event))
        name = names.get(key)
        if name is None:
            name = names[key] = REPLICA_EVENT, f"{self.role.value}: {type(event).__name__}"
        coverage[name] += 1
        effects = decide(self, event)
        if effects:
            seen.extend(effects)
            for effect in effects:
                coverage[REPLICA_EFFECT, type(effect).__name__] += 1
        return effects

    def partition_step(self: server.Partition, event: Event) -> None:
        if (process := living()) is None:
            carry_out(self, event)
            return
        broker = brokers[process.host]
        with observer.failing():
            observer.before_step(broker, self)
        outer, epoch = seen[:], self.replica.leader_epoch
        seen.clear()
        try:
            carry_out(self, event)
        except server.ReplicaFailed:
            observer.step_failed(broker, self)
            raise
        else:
            with observer.failing():
                if self.replica.leader_epoch < epoch and not getattr(event, "as_printed", False):
                    raise Violation(
                        "EpochNeverBack",
                        f"{self.tp}: broker {broker} was in leader epoch {epoch}, and obeys a word "
                        f"of {self.replica.leader_epoch}",
                    )
                observer.after_step(broker, self, event, seen[:])
        finally:
            seen[:] = outer

    replace(undo, Replica, "step", replica_step)
    replace(undo, server.Partition, "step", partition_step)


def leaderships(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = ReplicaManager._take_role

    def take_role(
        self: ReplicaManager, partition: server.Partition, role: BecomeLeaderOrFollower
    ) -> bool:
        begins = original(self, partition, role)
        if begins:
            with observer.failing():
                known_anew.begun(partition.replica, str(partition.tp))
        return begins

    replace(undo, ReplicaManager, "_take_role", take_role)


def fetches(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = server.Partition.step

    def step(self: server.Partition, event: Event) -> None:
        try:
            original(self, event)
        except ValueError as error:
            if type(event) is Fetched:
                with observer.failing():
                    following_on.refused(self, event, error)
            raise

    replace(undo, server.Partition, "step", step)


def sessions(undo: contextlib.ExitStack, observer: Observer) -> None:
    original, used = FetchSessionCache.session_of, Used()

    def session_of(
        self: FetchSessionCache, request: FetchRequest, now: Millis
    ) -> FetchSession | None:
        session = original(self, request, now)
        if session is not None:
            with observer.failing():
                used.asked(self, session, now)
                if request.replica_id != CONSUMER:
                    asked(observer, session, request.replica_id)
        return session

    replace(undo, FetchSessionCache, "session_of", session_of)


def deletions(undo: contextlib.ExitStack, observer: Observer) -> None:
    delete = ReplicaManager._delete

    def observed(self: ReplicaManager, tp: TopicPartition) -> None:
        opened = tp in self._partitions
        delete(self, tp)
        if not opened:
            observer.deleted(self._config.id, tp)

    replace(undo, ReplicaManager, "_delete", observed)
