"""What those do who decide who leads: controllers, and coordinators where there is none."""

import contextlib
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller.context import Context as ControllerContext
from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.events import AnswerShutdown
from ackproof.broker.coordination.administration import admin
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import QueueSizeRead
from ackproof.broker.coordination.hosting.leading import Leading
from ackproof.broker.coordination.hosting.partition import HostedPartition
from ackproof.broker.coordination.nodes import PartitionView
from ackproof.broker.coordination.queues.sending import Sender
from ackproof.broker.server.controller import hand_over
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.registration import Registration
from ackproof.broker.server.controller.runtime import ControllerRuntime
from ackproof.broker.server.zk.controller_zk import ControllerZk, Tenure
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.types import BrokerId, Millis, TopicPartition
from simulation.observer.following import known_anew
from simulation.observer.leadership import (
    counting,
    deleting,
    giving_back,
    giving_way,
    handing_over,
    resigning,
    suspecting,
)
from simulation.observer.leadership.counting import Counting
from simulation.observer.leadership.roles_told import RolesTold
from simulation.observer.leadership.suspecting import Bounced
from simulation.observer.moments.who_is_live import Asking
from simulation.observer.observer import Observer
from simulation.observer.orders import (
    answering,
    carried_out,
    decided_again,
    dropping,
    named,
    standing,
    unclean,
)
from simulation.observer.watched.wrapping import replace
from simulation.observer.writing import electing, leaving


def controllers(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = Controller.step
    told: WeakKeyDictionary[ControllerContext, RolesTold] = WeakKeyDictionary()
    bounced: WeakKeyDictionary[ControllerContext, Bounced] = WeakKeyDictionary()

    def step(self: Controller, event: Any) -> Any:
        before = self.context
        topics = {} if before is None else dict(before.topics)
        effects = original(self, event)
        context = self.context
        if context is None:
            return effects
        with observer.failing():
            told.setdefault(context, RolesTold()).stepped(context, effects)
            known = bounced.setdefault(context, Bounced())
            known.stepped(context)
            known.told(context, effects)
            giving_way.stepped(context, effects)
            giving_way.settled(context)
            deleting.check(context)
            carried_out.stepped(self, event, topics)
            answering.stepped(self, event)
            decided_again.stepped(self, event, known)
            unclean.stepped(self, event)
            for effect in effects:
                if type(effect) is AnswerShutdown:
                    handing_over.check(context, effect)
        return effects

    replace(undo, Controller, "step", step)


def coordinators(undo: contextlib.ExitStack, observer: Observer) -> None:
    original, host = Coordinator.step, HostedPartition.__init__
    counts, asking = Counting(), Asking()
    look = HostedPartition._partition_read

    def step(self: Coordinator, event: Any, now: Millis) -> Any:
        suspects = self.suspects
        effects = original(self, event, now)
        with observer.failing():
            counts.stepped(self, event, effects)
            asking.stepped(self, event, effects)
            suspecting.stepped(event, suspects, self.suspects)
            giving_back.check(self)
        return effects

    def hosted(self: HostedPartition, *args: Any, suspect: bool) -> None:
        host(self, *args, suspect=suspect)
        with observer.failing():
            unclean = self.context.settings.unclean_start
            suspecting.hosted(self.tp, unclean=unclean, suspect=suspect)
            if unclean:
                leaving.hosts(self)

    def read(self: HostedPartition, view: PartitionView) -> None:
        with observer.failing():
            deleting.read(self.context.me, self.tp, view, self.context.variant)
        look(self, view)

    begin = Leading.begin

    def begun(self: Leading) -> None:
        with observer.failing():
            standing.begins(self, begin)
            leaving.waits(self)
            known_anew.begins(self)
        begin(self)

    replace(undo, Leading, "begin", begun)
    replace(undo, HostedPartition, "_partition_read", read)
    replace(undo, HostedPartition, "__init__", hosted)
    replace(undo, Coordinator, "step", step)


def queues(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = Sender.size_read

    def size_read(self: Sender, event: QueueSizeRead) -> None:
        with observer.failing():
            counting.if_full(self, event.broker, original)
        original(self, event)

    replace(undo, Sender, "size_read", size_read)


def administrators(undo: contextlib.ExitStack, observer: Observer) -> None:
    removing = admin._removing

    def removed(view: PartitionView, target: named.Replicas) -> named.Replicas:
        with observer.failing():
            named.if_replaced(view, target, removing)
        return removing(view, target)

    replace(undo, admin, "_removing", removed)


def stopping(undo: contextlib.ExitStack, observer: Observer) -> None:
    ask = hand_over._ask

    async def asked(config: BrokerConfig, *of: Any) -> bool:
        led = not await ask(config, *of)
        if not led:
            with observer.failing():
                handing_over.asks_again(config.id, lambda: ask(config, *of))
        return not led

    replace(undo, hand_over, "_ask", asked)


def offices(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = ControllerRuntime._resign

    def resign(self: ControllerRuntime) -> None:
        original(self)
        with observer.failing():
            resigning.of_office(self._config.id, self._questions.values())

    elect, drop = ControllerZk.elect, ControllerZk.drop_reassignments

    async def dropped(self: ControllerZk, tenure: Tenure, done: Iterable[TopicPartition]) -> None:
        if type(self) is ControllerZk:  # and not what is asked here
            with observer.failing():
                dropping.check(drop, tenure, done)
        await drop(self, tenure, done)

    replace(undo, ControllerZk, "drop_reassignments", dropped)

    async def elected(self: ControllerZk, broker: BrokerId) -> Tenure | None:
        won = await elect(self, broker)
        if won is None:
            with observer.failing():
                electing.gave_up(broker, self._session.session_id, observer.controller_session)
        return won

    make = Registration.__init__

    def made(self: Registration, config: BrokerConfig, zk: KafkaZk, fence: ControlFence) -> None:
        make(self, config, zk, fence)

        def begun() -> None:
            session, contests = zk.session.session_id, self._registered.is_set()
            with observer.failing():
                electing.begins_session(
                    config.id, session, observer.registered_in, contests=contests
                )

        zk.on_session_established(begun)

    replace(undo, Registration, "__init__", made)
    replace(undo, ControllerZk, "elect", elected)
    replace(undo, ControllerRuntime, "_resign", resign)
