"""Who may come to a broker, and until when; broken by hand."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.server.network.acceptor import ConnectionLimits, ConnectionQuotas
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.moments import doors
from simulation.violation import Violation

pytestmark = pytest.mark.simulation


def node(*, is_done: bool = False, listens: bool = True) -> Any:
    connections = SimpleNamespace(_accepting=SimpleNamespace(done=lambda: is_done))
    return SimpleNamespace(id=1, app=SimpleNamespace(connections=connections), listens=listens)


def test_who_hands_over_is_to_be_reached() -> None:
    doors.are_open(node())
    for closed in (node(is_done=True), node(listens=False)):
        with pytest.raises(Violation, match="DoorsStayOpen: broker 1 takes in nobody any more"):
            doors.are_open(closed)


def test_who_has_not_joined_yet_leads_nothing() -> None:
    stopped = node(listens=False)
    stopped.app.connections._accepting = None
    doors.are_open(stopped)
    stopped.app.connections = None
    doors.are_open(stopped)


def _leaves_with_the_last(quotas: ConnectionQuotas, address: str) -> None:
    quotas._by_address[address] -= 1
    if not quotas._by_address[address]:
        quotas._left.set()


async def _lets_everybody_in(_quotas: ConnectionQuotas) -> None:
    return


def test_whoever_leaves_lets_one_in() -> None:
    async def leave() -> None:
        quotas = ConnectionQuotas(ConnectionLimits())
        for address in ("a", "a", "b"):
            quotas.enter(address)
        doors.left(quotas, "a", ConnectionQuotas.leave)
        doors.left(quotas, "b", _leaves_with_the_last)
        with pytest.raises(Violation, match="LeaversLetIn: one from a leaves, and nobody would"):
            doors.left(quotas, "a", _leaves_with_the_last)
        with (
            Mutation(Swap(ConnectionQuotas, "room", _lets_everybody_in)).active(),
            pytest.raises(Violation, match="LeaversLetIn: one more would be let in"),
        ):
            doors.left(quotas, "a", ConnectionQuotas.leave)
        assert quotas._by_address == {"a": 2, "b": 1}, "nobody has left"

    asyncio.run(leave())
