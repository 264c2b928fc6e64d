"""Brokers that are added to a deployed system, one node each, and removed again."""

import threading
from collections.abc import Callable, Sequence

from ackproof.infra.interface import Backend
from ackproof.infra.systems.server import NodeServer


class AddedBrokers:
    """Implements ``infra.added.Added``. Thread-safe.

    Args:
        make: Makes the node of a ``broker.id``, and configures the broker on it.
        deployed: How many brokers there are besides, with the ids from 1 on.
    """

    def __init__(self, backend: Backend, make: Callable[[int], NodeServer], deployed: int) -> None:
        self._backend = backend
        self._make = make
        self._lock = threading.Lock()
        self._there: dict[int, NodeServer] = {}
        self._highest = deployed

    @property
    def there(self) -> Sequence[NodeServer]:
        return list(self._there.values())

    @property
    def next_id(self) -> int:
        return self._highest + 1

    def add(self, number: int) -> NodeServer:
        with self._lock:
            if number not in self._there:
                self._highest = max(self._highest, number)
                try:
                    self._there[number] = self._make(number)
                except BaseException:
                    self._backend.remove(name_of(number))
                    raise
            return self._there[number]

    def remove(self, number: int) -> None:
        with self._lock:
            if number in self._there:
                self._backend.remove(name_of(number))
                del self._there[number]


def name_of(number: int) -> str:
    """What the broker of that id is called, and its node."""
    return f"broker-{number}"
