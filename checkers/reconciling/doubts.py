"""What a checker could not tell of a partition, and why."""

from dataclasses import dataclass

HISTORY = "history"
"""Stands for the checker where what went wrong is the history itself."""

CONSUMPTION = "consumption"
"""Stands for it where that is what consumers recorded: that is told, and leaves open what was
promised to them; no other promise rests on it."""

REPLICAS = "replicas"
"""Stands for the checker where copies of replicas could not be compared: that is told, and leaves
open whether they agree; no other promise rests on it."""

AUTOPSY_DOUBT = "autopsy"
"""Stands for it where autopsies could not be performed: that is told, and no promise rests on
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A checker (or HISTORY, or CONSUMPTION) that could not tell, and why."""

    checker: str
    message: str
