"""Faults of a running broker for tests: functions that are swapped for wrong ones for a while.

The catalogue of ``tools/mutation`` has faults as patches. A test that runs in this process cannot
use a patch.
"""

from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Swap:
    """One replacement: ``wrong`` for ``owner.name``, or for ``owner[name]`` in a mapping."""

    owner: Any
    name: Any
    wrong: Any

    @property
    def current(self) -> Any:
        """Return the present value."""
        there = self.owner if isinstance(self.owner, MutableMapping) else vars(self.owner)
        return there[self.name]

    def put(self, undo: ExitStack) -> None:
        """Replace the value until ``undo`` is closed."""
        undo.callback(self._set, self.current)
        self._set(self.wrong)

    def _set(self, value: Any) -> None:
        if isinstance(self.owner, MutableMapping):
            self.owner[self.name] = value
        else:
            setattr(self.owner, self.name, value)


class Mutation:
    """The replacements that make one fault. Some faults hide behind a fence in another place."""

    def __init__(self, *swaps: Swap) -> None:
        self.swaps = swaps

    @contextmanager
    def active(self) -> Iterator[None]:
        """Break the broker within this context."""
        with ExitStack() as undo:
            for swap in self.swaps:
                swap.put(undo)
            yield
