"""What a plug-in's fault must be before the table of faults accepts it."""

import re
from collections.abc import Iterator
from typing import cast

from ackproof.infra.interface import Capability
from ackproof.nemesis.interface import Aim, Fault, Parameters

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
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
    if not _NAME.fullmatch(name):
        yield f"{name!r} is not a name of lower-case words joined by hyphens"
    if fault.name != name:
        yield f"it is registered as {name} and says that its name is {fault.name!r}"
    if not isinstance(fault.summary, str) or len(fault.summary.splitlines()) != 1:
        yield "its summary must be one line of text"
    if not isinstance(fault.aim, Aim):
        yield f"its aim must be one of {', '.join(f'Aim.{one.name}' for one in Aim)}"
    if fault.destroys not in _DESTROYS:
        words = ", ".join(map(repr, _DESTROYS))
        yield f"it destroys {fault.destroys!r}, which is not one of {words}"
    if not isinstance(fault.needs, frozenset) or fault.needs - set(Capability):
        yield "its needs must be a frozenset of Capability"
    yield from _parameter_problems(fault.parameters)


def _parameter_problems(parameters: object) -> Iterator[str]:
    if not isinstance(parameters, type) or not issubclass(parameters, Parameters):
        yield "its parameters must be a subclass of ackproof.nemesis.interface.Parameters"
        return
    for name, field in parameters.model_fields.items():
        if field.is_required():
            yield f"its parameter {name} has no default"
        if not field.description:
            yield f"its parameter {name} has no description"
        if name in _MEANT:
            yield f"its parameter {name} needs another name: it means what {_MEANT[name]} does"
    parameters()  # the defaults must go together,
    parameters.model_json_schema()  # and editors are told of them
