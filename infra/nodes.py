"""The nodes of a backend by name, whatever kind they are."""

import re
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from infra.interface import InfraError, Node

N = TypeVar("N", bound=Node)

_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Nodes(Generic[N]):
    """Each is made once, at first asking. Threads that ask for different ones do not wait for each
    other.

    Args:
        make: Makes the node of a name. What it raises is raised to who asked; asked again, it is
            tried again.
    """

    def __init__(self, make: Callable[[str], N]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._made: dict[str, N] = {}
        self._closed = False

    def get(self, name: str) -> N:
        """Raises ValueError for a name that is none, InfraError when closed."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"node name {name!r}: must match {_NAME.pattern}")
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            if self._closed:
                raise InfraError(f"the backend is closed: no node {name}")
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def ours(self, node: Node) -> N:
        """A node that was got here, as what it is."""
        return self._made[node.name]

    def made(self) -> Sequence[N]:
        """Those that there are, closed or not."""
        return list(self._made.values())

    def close(self) -> bool:
        """No more are made; returns when none is being made. Whether this was the first time: the
        nodes themselves are the caller's to close."""
        with self._lock:
            first, self._closed = not self._closed, True
            under_way = list(self._making.values())
        for making in under_way:
            with making:
                pass
        return first
