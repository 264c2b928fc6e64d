"""Brokers that join a cluster while it runs, and leave it again."""

from collections.abc import Sequence
from typing import NoReturn, Protocol, TypeVar

S_co = TypeVar("S_co", covariant=True)


class Added(Protocol[S_co]):
    """Those that joined a system since it was deployed. ``S_co``: ``infra.interface.Server``."""

    @property
    def there(self) -> Sequence[S_co]:
        """Those that were not removed, whether they run or not."""

    @property
    def next_id(self) -> int:
        """The lowest ``broker.id`` that no broker of the system ever had, nor a higher one."""

    def add(self, number: int) -> S_co:
        """A broker of that id, on a node that is made for it, configured as the others are and not
        started; if it is there already, that one. Raises InfraError where it cannot be had: nothing
        is left of it then."""

    def remove(self, number: int) -> None:
        """Remove the node of a broker that was added, with all that is on it: what still runs is
        killed. Idempotent. Raises InfraError when it cannot be; then it is still there."""


class NobodyJoins:
    """Implements :class:`Added` where nothing is deployed. ``why``: in words."""

    there: Sequence[NoReturn] = ()
    next_id = 0

    def __init__(self, why: str) -> None:
        self._why = why

    def add(self, number: int) -> NoReturn:
        raise LookupError(f"no broker {number} joins: {self._why}")

    def remove(self, number: int) -> None: ...
