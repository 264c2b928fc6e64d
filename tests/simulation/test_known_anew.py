"""KnownAnew where there is no controller, and BusyStay: each rule broken once, and kept once."""

from random import Random
from typing import Any

import pytest

from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.hosting.leading import Leading
from ackproof.broker.coordination.nodes import Assigned, PartitionView
from ackproof.broker.coordination.variants import Fenced
from ackproof.broker.server.replication.fetch_session_cache import (
    MIN_EVICTION_MS,
    FetchSession,
    FetchSessionCache,
)
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, TopicPartition, ZkVersion
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.following import known_anew
from simulation.observer.following.lasting import EVERY, Used
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

ONE, TWO = BrokerId(1), BrokerId(2)


class Hosted:
    """A partition of which broker 1 begins to lead epoch 4."""

    tp = TopicPartition("t", 0)
    busy = False

    def __init__(self) -> None:
        settings: Any = type("Settings", (), {"broker": ONE, "keep_in_sync_ms": 1_000})()
        self.context = Context(settings=settings, variant=Fenced())
        hosted: Any = self
        self.leading = Leading(
            hosted,
            epoch=LeaderEpoch(4),
            isr=(ONE, TWO),
            version=ZkVersion(0),
            view=PartitionView(replicas=Assigned(replicas=(ONE, TWO), version=ZkVersion(0))),
        )


def counts_any(self: Leading, progress: Any) -> None:
    self.progress = progress


def asks_for_any(self: Leading, asked: Any) -> None:
    self._asked = asked


def test_a_word_of_a_former_epoch_is_none() -> None:
    hosted = Hosted()
    before = vars(hosted.leading).copy()
    known_anew.begins(hosted.leading)
    assert vars(hosted.leading) == before
    assert not hosted.context.outbox._effects


@pytest.mark.parametrize(
    ("name", "wrong", "how"),
    [
        ("progressed", counts_any, "would count how far its followers were in 3"),
        ("isr_asked", asks_for_any, "would write the ISR that was asked for in 3"),
    ],
)
def test_who_goes_by_one_is_found(name: str, wrong: Any, how: str) -> None:
    with (
        Mutation(Swap(Leading, name, wrong)).active(),
        pytest.raises(Violation, match=f"KnownAnew: t-0: leader 1 of epoch 4 {how}"),
    ):
        known_anew.begins(Hosted().leading)


def test_a_session_that_is_used_is_not_idle() -> None:
    cache, used = FetchSessionCache(2, Random(1)), Used()
    sessions = [FetchSession(number, True, Millis(0), Millis(0)) for number in range(2)]
    for session in sessions:
        asked: Any = None
        session._partitions[Hosted.tp] = asked
        cache._sessions[session.id] = session
        used.asked(cache, session, Millis(0))
    busy, idle = sessions
    for now in (10, MIN_EVICTION_MS, 2 * MIN_EVICTION_MS):
        busy.epoch, busy.last_used = EVERY, Millis(now)
        used.asked(cache, busy, Millis(now))
    cache._sessions.pop(idle.id)
    with pytest.raises(Violation, match="BusyStay: fetch session 0 is used at 240001 ms"):
        used.asked(cache, busy, Millis(2 * MIN_EVICTION_MS + 1))
