"""What a plug-in's workload must be before the table of workloads accepts it."""

import re
from collections.abc import Iterator
from typing import cast

from ackproof.workloads.interface import Parameters, Workload

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
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
    if not _NAME.fullmatch(name):
        yield f"{name!r} is not a name of lower-case words joined by hyphens"
    if workload.name != name:
        yield f"it is registered as {name} and says that its name is {workload.name!r}"
    if not isinstance(workload.summary, str) or len(workload.summary.splitlines()) != 1:
        yield "its summary must be one line of text"
    if not isinstance(workload.transactional, bool):
        yield "its transactional must be True or False"
    yield from _parameter_problems(workload.parameters)


def _parameter_problems(parameters: object) -> Iterator[str]:
    if not isinstance(parameters, type) or not issubclass(parameters, Parameters):
        yield "its parameters must be a subclass of ackproof.workloads.interface.Parameters"
        return
    for name, field in parameters.model_fields.items():
        if field.is_required():
            yield f"its parameter {name} has no default"
        if not field.description:
            yield f"its parameter {name} has no description"
    parameters()  # the defaults must go together,
    parameters.model_json_schema()  # and editors are told of them
