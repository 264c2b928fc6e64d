"""The conditions that a plug-in's fault must meet."""

from collections.abc import Iterator
from typing import cast

from ackproof.infra.api.interface import Capability
from ackproof.nemesis.interface import Aim, Fault, Parameters
from ackproof.plugins.registration import common_problems, parameter_problems

_VALUES = ("name", "summary", "aim", "parameters", "needs", "destroys")
_METHODS = ("plan", "bitten", "healed", "hold_ms_min")
_DESTROYS = (None, "unsynced", "all", "bits", "unclean")
_MEANT = {"min_insync_replicas": "alter-min-isr", "before_offset": "delete-records"}
"""Parameters by which the checkers judge a fault, whatever its name, and whose they are."""


def as_fault(found: object, name: str) -> Fault:
    """Return a registered object as the fault called ``name``. Raises ValueError that says what is
    wrong with it."""
    for problem in _problems(found, name):
        raise ValueError(problem)
    return cast(Fault, found)


def _problems(found: object, name: str) -> Iterator[str]:
    if isinstance(found, type):
        yield f"{found.__name__} is a class; register an instance of it"
    missing = [one for one in (*_VALUES, *_METHODS) if not hasattr(found, one)]
    if missing:
        yield f"it has no {', '.join(missing)}; see ackproof.nemesis.interface.Fault"
    fault = cast(Fault, found)
    uncallable = [one for one in _METHODS if not callable(getattr(fault, one))]
    if uncallable:
        yield f"{', '.join(uncallable)}: must be a method"
    yield from common_problems(fault, name)
    if not isinstance(fault.aim, Aim):
        yield f"its aim must be one of {', '.join(f'Aim.{one.name}' for one in Aim)}"
    if fault.destroys not in _DESTROYS:
        words = ", ".join(map(repr, _DESTROYS))
        yield f"it destroys {fault.destroys!r}, which is not one of {words}"
    if not isinstance(fault.needs, frozenset) or fault.needs - set(Capability):
        yield "its needs must be a frozenset of Capability"
    yield from parameter_problems(fault.parameters, Parameters, _MEANT)
