"""Who waits to hear how full a queue is has asked in its session, and makes room in it."""

from contextlib import ExitStack
from typing import Any, cast

import pytest

from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import Event, QueueSizeRead, ReadQueueSize, SessionExpired
from ackproof.broker.coordination.nodes import Change, StateChangeRequest
from ackproof.broker.coordination.queues import sending as sending_module
from ackproof.broker.coordination.queues.queue import superfluous
from ackproof.broker.coordination.queues.sending import Sender
from ackproof.broker.coordination.settings import Settings
from ackproof.broker.coordination.variants import Fenced, Printed, Variant
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition
from simulation.mutations.swap import Swap
from simulation.observer.leadership.counting import Counting, if_full
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

OTHER = BrokerId(2)
ASKS = ReadQueueSize(broker=OTHER)
ROOM = QueueSizeRead(broker=OTHER, size=0)


class Waiting:
    """A coordinator that waits for these."""

    def __init__(self) -> None:
        self.judge = Counting()
        self.counting: frozenset[BrokerId] = frozenset()

    def step(self, event: Event, *effects: Any, counting: tuple[BrokerId, ...]) -> None:
        self.counting = frozenset(counting)
        self.judge.stepped(cast(Coordinator, self), event, effects)


@pytest.fixture
def asked() -> Waiting:
    waiting = Waiting()
    waiting.step(ROOM, ASKS, counting=(OTHER,))
    return waiting


def test_what_was_asked_may_be_waited_for(asked: Waiting) -> None:
    asked.step(ROOM, counting=(OTHER,))
    asked.step(ROOM, counting=())


def test_what_was_asked_before_the_session_ended_is_not_waited_for(asked: Waiting) -> None:
    with pytest.raises(Violation, match=r"CountsAreAsked: waits .* of brokers \[2\] are"):
        asked.step(SessionExpired(), counting=(OTHER,))


def test_in_the_next_session_it_is_asked_anew(asked: Waiting) -> None:
    asked.step(SessionExpired(), counting=())
    asked.step(ROOM, ASKS, counting=(OTHER,))


def sending(variant: Variant = Fenced()) -> Sender:  # noqa: B008
    """It waits to hear how full the other's queue is."""
    settings = Settings(broker=BrokerId(1))
    sender = Sender(Context(settings=settings, variant=variant))
    request = StateChangeRequest(
        change=Change.CLOSE_REPLICA,
        partition=TopicPartition("t", 0),
        leader=BrokerId(1),
        epoch=LeaderEpoch(3),
    )
    sender.send(((OTHER, request),), (), then=lambda _: None)
    return sender


def always_full(self: Sender, broker: BrokerId, entries: tuple[Any, ...]) -> None:
    self._known(broker, full=bool(entries))


def never_full(self: Sender, broker: BrokerId, _entries: tuple[Any, ...]) -> None:
    self._known(broker, full=False)


def all_that_start(entries: Any, *, keeps_all_kinds: bool) -> tuple[str, ...]:
    assert keeps_all_kinds
    return superfluous(entries, keeps_all_kinds=False)


@pytest.mark.parametrize("variant", [Fenced(), Printed()])
def test_what_is_superfluous_makes_room(variant: Variant) -> None:
    sender = sending(variant)
    if_full(sender, OTHER, Sender.size_read)
    if_full(sender, BrokerId(3), Sender.size_read)
    assert sender.waits_for == {OTHER}, "the sender itself hears of nothing"


@pytest.mark.parametrize("wrong", [always_full, never_full])
def test_nobody_is_refused_where_there_is_room(wrong: Any) -> None:
    with ExitStack() as undo:
        Swap(Sender, "_shrink", wrong).put(undo)
        with pytest.raises(Violation, match=r"RoomIsMade: a request to broker 2"):
            if_full(sending(), OTHER, Sender.size_read)


def test_no_request_is_taken_out_that_nobody_has_put_in_again() -> None:
    with ExitStack() as undo:
        Swap(sending_module, "superfluous", all_that_start).put(undo)
        with pytest.raises(Violation, match=r"2 of start-replica for 2 partitions"):
            if_full(sending(), OTHER, Sender.size_read)
