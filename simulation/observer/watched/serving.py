"""Brokers as others find them: where they are, and how they keep their connections."""

import contextlib

from broker.server.network.connections import _Connection
from simulation.machines.node import Node
from simulation.observer.moments import idle
from simulation.observer.observer import Observer
from simulation.observer.watched.wrapping import replace


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
