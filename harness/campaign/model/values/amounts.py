"""How much is sent, as campaign files write it: a rate or ``flat-out``; a size or a range."""

import math
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

FLAT_OUT = "flat-out"
RATE_MAX = 1_000_000


def _rate(value: object, number: ValidatorFunctionWrapHandler) -> object:
    return math.inf if value == FLAT_OUT else number(value)


def _written_rate(rate: float) -> float | str:
    return FLAT_OUT if math.isinf(rate) else rate


def _sizes(value: object) -> tuple[int, int]:
    written = list(value) if isinstance(value, list | tuple) else [value, value]
    bounds = [one for one in written if isinstance(one, int) and one is not True and one >= 1]
    if not len(written) == len(bounds) == 2:
        raise ValueError(
            f"a size is a whole number of bytes from 1, or [smallest, largest], not {value!r}"
        )
    smallest, largest = bounds
    if smallest > largest:
        raise ValueError(f"the smallest size comes first, like [{largest}, {smallest}]")
    return smallest, largest


def _written_sizes(sizes: tuple[int, int]) -> int | list[int]:
    smallest, largest = sizes
    return smallest if smallest == largest else [smallest, largest]


_RATE: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0, "maximum": RATE_MAX}
_SIZE: dict[str, Any] = {"type": "integer", "minimum": 1}
_SIZES: dict[str, Any] = {
    "title": "[smallest, largest]",
    "type": "array",
    "items": _SIZE,
    "minItems": 2,
    "maxItems": 2,
}

Rate = Annotated[
    float,
    Field(gt=0, le=RATE_MAX, allow_inf_nan=False),
    WrapValidator(_rate),
    PlainSerializer(_written_rate),
    WithJsonSchema({"anyOf": [_RATE, {"const": FLAT_OUT}]}),
]
"""A pydantic field type: records a second; infinity for ``flat-out``."""

Sizes = Annotated[
    tuple[int, int],
    BeforeValidator(_sizes),
    PlainSerializer(_written_sizes),
    WithJsonSchema({"anyOf": [_SIZE, _SIZES]}),
]
"""A pydantic field type: ``100``, or ``[100, 2000]``, in the file; smallest and largest, bytes."""
