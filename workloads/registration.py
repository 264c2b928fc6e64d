"""The conditions that a plug-in's workload must meet."""

from collections.abc import Iterator
from typing import cast

from ackproof.plugins.registration import common_problems, parameter_problems
from ackproof.workloads.interface import Parameters, Workload

_VALUES = ("name", "summary", "transactional", "parameters")
_METHODS = ("writers", "clients", "final_read")


def as_workload(found: object, name: str) -> Workload:
    """Return a registered object as the workload called ``name``. Raises ValueError that says what
    is wrong with it."""
    for problem in _problems(found, name):
        raise ValueError(problem)
    return cast(Workload, found)


def _problems(found: object, name: str) -> Iterator[str]:
    if isinstance(found, type):
        yield f"{found.__name__} is a class; register an instance of it"
    missing = [one for one in (*_VALUES, *_METHODS) if not hasattr(found, one)]
    if missing:
        yield f"it has no {', '.join(missing)}; see ackproof.workloads.interface.Workload"
    workload = cast(Workload, found)
    uncallable = [one for one in _METHODS if not callable(getattr(workload, one))]
    if uncallable:
        yield f"{', '.join(uncallable)}: must be a method"
    yield from common_problems(workload, name)
    if not isinstance(workload.transactional, bool):
        yield "its transactional must be True or False"
    yield from parameter_problems(workload.parameters, Parameters)
