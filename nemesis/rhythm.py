"""When the effects of a plan come and go while it is held."""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """Now on, now off. How long each time is drawn from ``seed``, in milliseconds: shortest and
    longest."""

    seed: int
    on_ms: tuple[int, int]
    off_ms: tuple[int, int]

    def beats(self) -> Iterator[tuple[int, int]]:
        """How long it is on, and then off; without end, the same each time."""
        rng = random.Random(self.seed)
        while True:
            yield rng.randint(*self.on_ms), rng.randint(*self.off_ms)
