"""The conditions that every registered object must meet, and the messages about violations."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""The names that campaigns use: lower-case words, joined by hyphens."""


def common_problems(found: Any, name: str) -> Iterator[str]:
    """Yield what is wrong with the name and the summary of an object registered as ``name``."""
    if not NAME.fullmatch(name):
        yield f"{name!r} is not a valid name: use lower-case words joined by hyphens"
    if found.name != name:
        yield f"it is registered as {name}, but its name is {found.name!r}"
    if not isinstance(found.summary, str) or len(found.summary.splitlines()) != 1:
        yield "its summary must be one line of text"


def parameter_problems(
    parameters: Any, base: type, taken: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield what is wrong with the class of an object's parameters.

    Args:
        parameters: The parameters of the object; valid if they are a subclass of ``base``.
        base: A pydantic model.
        taken: Names of parameters that are reserved, and for what.

    Raises what pydantic raises if the defaults contradict each other or have no JSON Schema.
    """
    if not isinstance(parameters, type) or not issubclass(parameters, base):
        yield f"its parameters must be a subclass of {base.__module__}.{base.__qualname__}"
        return
    model: Any = parameters
    for name, field in model.model_fields.items():
        if field.is_required():
            yield f"its parameter {name} has no default"
        if not field.description:
            yield f"its parameter {name} has no description"
        if taken and name in taken:
            yield f"its parameter {name} needs another name: it means what {taken[name]} does"
    model()
    model.model_json_schema()
