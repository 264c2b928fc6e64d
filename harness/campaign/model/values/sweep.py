"""Where a campaign file takes one value, or a list of them to go through."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ackproof.history.cell import Value


def several(value: object) -> tuple[object, ...]:
    """A value alone is a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _written(values: tuple[Value, ...] | None) -> object:
    return values[0] if values and len(values) == 1 else values


@dataclass(frozen=True, slots=True)
class _Several:
    """Makes a list field take a value alone, too."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(several, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return one_or_several(handler(schema)["items"])


def one_or_several(item: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of one value or a list of them, given that of one."""
    return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}


def _scalar(value: object) -> object:
    if not isinstance(value, str | int | float):
        raise PydanticCustomError("scalar_type", "Input should be text, a number, true or false")
    return value


Several = _Several()
AsWritten = PlainSerializer(_written)
"""A list of one goes back into the file as the value alone."""

Scalar = Annotated[Value, BeforeValidator(_scalar)]
"""A pydantic field type: a value of a property. What is none is one problem, not one for each type
that it might have had."""

OneOrSeveral = Annotated[tuple[Scalar, ...], Field(min_length=1), Several, AsWritten]
"""A pydantic field type: values of a property."""
