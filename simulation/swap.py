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

    def put(self, undo: ExitStack) -> None:
        """Until ``undo`` is closed."""
        if isinstance(self.owner, MutableMapping):
            undo.callback(self.owner.__setitem__, self.name, self.owner[self.name])
            self.owner[self.name] = self.wrong
        else:
            undo.callback(setattr, self.owner, self.name, vars(self.owner)[self.name])
            setattr(self.owner, self.name, self.wrong)


class Mutation:
    """Swaps that make one fault; some faults hide behind a fence in another place."""

    def __init__(self, *swaps: Swap) -> None:
        self._swaps = swaps

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within, the broker is broken."""
        with ExitStack() as undo:
            for swap in self._swaps:
                swap.put(undo)
            yield
