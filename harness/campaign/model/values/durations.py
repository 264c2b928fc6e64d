"""Lengths of time as campaign files write them: ``5s``, ``300ms``, ``2m``; in the code, always
whole milliseconds.

A bare number is refused: whether it meant seconds or milliseconds nobody could tell.
"""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)")
DURATION_MS_MAX = 7 * 24 * 3_600_000
"""Of one length of time in a file: more is a slip of the pen."""


def parse_ms(text: object) -> int:
    """Whole milliseconds of ``text``, e.g. 1500 of ``1.5s``. Raises as :func:`parse_exact_ms`."""
    return round(parse_exact_ms(text))


def parse_exact_ms(text: object) -> float:
    """Milliseconds of ``text``, e.g. 0.5 of ``0.5ms``.

    Raises ValueError, saying what would be right, for anything else than number and unit, and for
    more than :data:`DURATION_MS_MAX`.
    """
    match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"a length of time needs a number and a unit, like 5s or 300ms: {text!r}")
    duration_ms = float(match[1]) * _UNITS_MS[match[2]]
    if duration_ms > DURATION_MS_MAX:  # float has room for infinity, and round has not
        raise ValueError(f"{match[0]} is too long: at most {format_ms(DURATION_MS_MAX)}")
    return duration_ms


def format_ms(duration_ms: int) -> str:
    """``duration_ms`` as :func:`parse_ms` reads it, in the largest unit that fits exactly."""
    for unit in ("h", "m", "s"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def _parse_range(value: object) -> tuple[int, int]:
    bounds = value if isinstance(value, list) else [value, value]
    if len(bounds) != 2:
        raise ValueError("a range of times is [shortest, longest], like [4s, 7s]")
    shortest, longest = parse_ms(bounds[0]), parse_ms(bounds[1])
    if shortest > longest:
        raise ValueError(f"the shortest time comes first, like [{bounds[1]}, {bounds[0]}]")
    return shortest, longest


def _format_range(bounds_ms: tuple[int, int]) -> list[str]:
    return [format_ms(bound) for bound in bounds_ms]


_SCHEMA: dict[str, Any] = {
    "title": "length of time",
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h)\s*$",
}
_RANGE: dict[str, Any] = {
    "title": "[shortest, longest]",
    "type": "array",
    "items": _SCHEMA,
    "minItems": 2,
    "maxItems": 2,
}

Duration = Annotated[
    int, BeforeValidator(parse_ms), PlainSerializer(format_ms), WithJsonSchema(_SCHEMA)
]
"""A pydantic field type: ``5s`` in the file, milliseconds in the model."""

DurationRange = Annotated[
    tuple[int, int],
    BeforeValidator(_parse_range),
    PlainSerializer(_format_range),
    WithJsonSchema({"anyOf": [_SCHEMA, _RANGE]}),
]
"""A pydantic field type: ``[4s, 7s]``, or ``5s`` for exactly that, in the file; shortest and
longest in milliseconds in the model."""
