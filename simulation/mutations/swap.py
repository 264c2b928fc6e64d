"""Something of the broker's, swapped for something wrong for a while."""

from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Swap:
    """``wrong`` takes the place of ``owner.name``, or of ``owner[name]`` in a mapping."""

    owner: Any
    name: Any
    wrong: Any

    @property
    def current(self) -> Any:
        """What stands there now."""
        there = self.owner if isinstance(self.owner, MutableMapping) else vars(self.owner)
        return there[self.name]

    def put(self, undo: ExitStack) -> None:
        """Until ``undo`` is closed."""
        undo.callback(self._set, self.current)
        self._set(self.wrong)

    def _set(self, value: Any) -> None:
        if isinstance(self.owner, MutableMapping):
            self.owner[self.name] = value
        else:
            setattr(self.owner, self.name, value)


class Mutation:
    """Swaps that make one fault; some faults hide behind a fence in another place."""

    def __init__(self, *swaps: Swap) -> None:
        self.swaps = swaps

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within, the broker is broken."""
        with ExitStack() as undo:
            for swap in self.swaps:
                swap.put(undo)
            yield
