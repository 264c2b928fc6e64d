"""How a step of a broker is looked at: what does it is replaced while an observer looks on."""

import contextlib
from typing import Any

from simulation.loop.ownership import PROCESS, Process
from simulation.observer.coverage import Coverage


def replace(undo: contextlib.ExitStack, owner: Any, name: str, other: Any) -> None:
    undo.callback(setattr, owner, name, owner.__dict__[name])
    setattr(owner, name, other)


def living() -> Process | None:
    """Whose step this is; nobody's, where its process was killed in the middle of it."""
    process = PROCESS.get()
    return None if process is None or process.is_dead else process


def count(
    undo: contextlib.ExitStack, owner: Any, coverage: Coverage, event_room: str, effect_room: str
) -> None:
    original = owner.step

    def step(self: Any, event: Any, *args: Any) -> Any:
        coverage[event_room, type(event).__name__] += 1
        effects = original(self, event, *args)
        for effect in effects:
            coverage[effect_room, type(effect).__name__] += 1
        return effects

    replace(undo, owner, "step", step)
