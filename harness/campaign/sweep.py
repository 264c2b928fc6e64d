"""Where a campaign file takes one value, or a list of them to go through."""

from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from history.cell import Value


def several(value: object) -> tuple[object, ...]:
    """A value alone is a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _written(values: tuple[Value, ...] | None) -> object:
    return values[0] if values and len(values) == 1 else values


Several = BeforeValidator(several)
AsWritten = PlainSerializer(_written)
"""A list of one goes back into the file as the value alone."""

OneOrSeveral = Annotated[tuple[Value, ...], Several, AsWritten, Field(min_length=1)]
"""A pydantic field type: values of a property."""
