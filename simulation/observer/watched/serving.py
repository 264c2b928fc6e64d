"""Brokers as others find them: where they are, whom they let in, and how they keep their
connections."""

import contextlib
from collections.abc import Mapping
from typing import Any

from ackproof.broker.server.controller.by_controller import ByController
from ackproof.broker.server.coordination.by_leaders import ByLeaders
from ackproof.broker.server.network.acceptor import ConnectionQuotas
from ackproof.broker.server.network.connections import _Connection
from simulation.machines.node import Node
from simulation.observer.moments import doors, idle
from simulation.observer.observer import Observer
from simulation.observer.watched.wrapping import living, replace


def lives(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = Node.start

    def start(self: Node) -> None:
        original(self)
        observer.settings.properties[self.id] = self.config
        observer.cluster.begun(self.id, self.config)

    replace(undo, Node, "start", start)


def connections(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = _Connection._go_on

    def go_on(self: _Connection, *, arrived: bool = False) -> None:
        original(self, arrived=arrived)
        with observer.failing():
            idle.check(self)

    replace(undo, _Connection, "_go_on", go_on)


def doors_open(undo: contextlib.ExitStack, observer: Observer, hosts: Mapping[str, Node]) -> None:
    leave = ConnectionQuotas.leave

    def left(self: ConnectionQuotas, address: str) -> None:
        with observer.failing():
            doors.left(self, address, leave)
        leave(self, address)

    def look() -> None:
        process = living()
        if process is not None:
            with observer.failing():
                doors.are_open(hosts[process.host])

    def looked_at(hand_over: Any) -> Any:
        async def handed_over(self: Any) -> None:
            look()
            await hand_over(self)
            look()

        return handed_over

    replace(undo, ConnectionQuotas, "leave", left)
    for kind in (ByController, ByLeaders):
        replace(undo, kind, "hand_over", looked_at(kind.hand_over))
