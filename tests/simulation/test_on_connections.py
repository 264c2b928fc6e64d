"""Of bytes and of what is held: a fault for each is found; without one nothing is
(``test_on_purpose.py``)."""

from collections.abc import Callable
from typing import Any

import pytest
from swap import Mutation, Swap

from ackproof.broker.server.network.acceptor import ConnectionQuotas
from ackproof.broker.server.network.connections import _Connection
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.zk.session import ZkSession
from ackproof.broker.wire.framing import FrameBuffer
from simulation.clients.pipeline import in_pieces
from simulation.plans.schedule import draw
from simulation.world.world import run

pytestmark = pytest.mark.simulation


def test_pieces_are_all_there_is_in_the_sizes_that_are_asked_for() -> None:
    assert list(in_pieces(b"abcdefg", (1, 3))) == [b"a", b"bcd", b"e", b"fg"]


# --- AnsweredInOrder ------------------------------------------------------------------------------


def begins_what_was_held_when_more_comes() -> Swap:
    go_on = _Connection._go_on

    def went_on(self: Any, *, arrived: bool = False) -> None:
        if arrived:
            go_on(self, arrived=True)
        elif self._transport is not None and not self._transport.is_closing():
            self._send_those_ready(self._transport)
            self._hold(self._transport)

    return Swap(_Connection, "_go_on", went_on)


def goes_on_with_nothing_when_it_may_write() -> Swap:
    def writable(self: Any) -> None:
        self._writable = True

    return Swap(_Connection, "resume_writing", writable)


def takes_what_has_arrived_for_a_whole_frame() -> Swap:
    def frame(self: Any) -> bytes | None:
        begin, end = self._begin, self._end
        if end - begin <= 4:
            return None
        size = self._size()
        self._begin = min(begin + 4 + size, end)
        return bytes(self._buffer[begin + 4 : self._begin])

    return Swap(FrameBuffer, "next", frame)


# --- NothingIsKept --------------------------------------------------------------------------------


def keeps_slots_of_who_went_away() -> Swap:
    complete = ZkSession._complete

    def completed(self: ZkSession, answer: Any, result: Any) -> None:
        if not answer.done():
            complete(self, answer, result)

    return Swap(ZkSession, "_complete", completed)


def counts_who_has_left() -> Swap:
    return Swap(ConnectionQuotas, "leave", lambda _self, _address: None)


def wakes_who_is_answered() -> Swap:
    return Swap(Purgatory, "_forget", lambda _self, _partition, _delayed: None)


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (begins_what_was_held_when_more_comes, "AnsweredInOrder"),
        (goes_on_with_nothing_when_it_may_write, "AnsweredInOrder"),
        (takes_what_has_arrived_for_a_whole_frame, "AnsweredInOrder"),
        (keeps_slots_of_who_went_away, "NothingIsKept"),
        (counts_who_has_left, "NothingIsKept"),
        (wakes_who_is_answered, "NothingIsKept"),
    ],
)
def test_what_is_wrong_with_connections_is_found(plant: Callable[[], Swap], invariant: str) -> None:
    with Mutation(plant()).active():
        violation = run(draw(1)).violation
    assert violation is not None
    assert violation.invariant == invariant
